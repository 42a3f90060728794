import type { Advice } from '../../api/types';
import { RankedBars } from '../../charts/small';
import { measureOf } from '../../data/advice';
import { figure } from '../../data/format';
import type { Form } from '../../data/form';

const plain = (mechanism: string): string => mechanism.replace(/^.*\./, '');

export function AdviceShown(props: {
  advice: Advice;
  /** The answers that the advice is for. */
  form: Form;
  mechanism: string | null;
  onChoose(mechanism: string | null): void;
}) {
  const { advice } = props;
  const chosen = props.mechanism ?? (advice.mechanism === null ? null : plain(advice.mechanism));
  const measure = measureOf(advice.metric, props.form);
  const ranking = advice.ranking.map((one) => ({
    ...one,
    mechanism: plain(one.mechanism),
    error: measure.of(one.error),
    low: measure.of(one.low),
    high: measure.of(one.high),
  }));
  return (
    <section class="card stack" aria-label="Prediction">
      <h2>Predicted error</h2>
      {ranking.length === 0 ? (
        <p>No mechanism fits these answers: a larger ε or fewer values may help.</p>
      ) : (
        <RankedBars ranking={ranking} chosen={chosen} unit={`${measure.label}; logarithmic`} />
      )}
      <p class="soft small">
        Less is better.
        {ranking.some((one) => one.mechanism === 'constant') &&
          ' “constant” is a baseline, which always releases the same: it cannot be taken.'}
        {advice.metric === 'mse' && ' The words below compare mean squared errors, the squares of these.'}
      </p>
      {advice.why && <p>{advice.why}</p>}
      {advice.otherwise && <p class="soft">{advice.otherwise}</p>}
      <details>
        <summary>As a table, and to choose another mechanism</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label="Predicted errors as a table">
          <table class="small">
            <thead>
              <tr>
                <th scope="col">Mechanism</th>
                <th scope="col" class="number">
                  {measure.label}
                </th>
                <th scope="col" class="number">
                  from
                </th>
                <th scope="col" class="number">
                  to
                </th>
                <th scope="col">by</th>
                <th scope="col">
                  <span class="hidden">Choice</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {ranking.map((one) => (
                <tr key={one.mechanism}>
                  <th scope="row">{one.mechanism}</th>
                  <td class="number">{figure(one.error, 3)}</td>
                  <td class="number">{figure(one.low, 3)}</td>
                  <td class="number">{figure(one.high, 3)}</td>
                  <td>{one.method}</td>
                  <td>
                    {one.mechanism === chosen ? (
                      <span class="chip good">chosen</span>
                    ) : (
                      (one.mechanism === 'constant' && <span class="soft">a baseline</span>) || (
                        <button type="button" onClick={() => props.onChoose(one.mechanism)}>
                          Take {one.mechanism}
                        </button>
                      )
                    )}
                  </td>
                </tr>
              ))}
              {advice.unpredicted.map((one) => (
                <tr key={one.mechanism}>
                  <th scope="row">{plain(one.mechanism)}</th>
                  <td colSpan={5} class="soft">
                    {one.why}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
        {props.mechanism !== null && (
          <button type="button" onClick={() => props.onChoose(null)}>
            Take the recommended one
          </button>
        )}
      </details>
    </section>
  );
}

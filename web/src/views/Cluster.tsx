// The processes of a cluster, and how far its partitions are counted. Nothing here follows events of curated streams.

import { getCluster } from '../api/routes';
import type { Cluster, ClusterPartition, ClusterProcess } from '../api/types';
import { ago, moment, whole } from '../data/format';
import { holders, totalLag } from '../data/cluster';
import { usePolled } from '../state/poll';
import { Empty, Failed } from '../ui/parts';

const EVERY = 2_000;

export function ClusterView() {
  const { value, error, again } = usePolled(getCluster, EVERY);
  const cluster = value.value;
  return (
    <>
      <h1>Cluster</h1>
      {error.value !== null && (
        <Failed what="The state of the cluster cannot be read" error={error.value} retry={again} />
      )}
      {cluster ? (
        <Shown cluster={cluster} />
      ) : (
        error.value === null && (
          <p class="soft" role="status">
            Loading…
          </p>
        )
      )}
    </>
  );
}

function Shown(props: { cluster: Cluster }) {
  const { cluster } = props;
  const { processes, partitions } = cluster;
  const count = (role: string): number => processes.filter((process) => process.role === role).length;
  const lag = totalLag(partitions);
  const unread = partitions.filter((partition) => partition.holder === null).length;
  return (
    <>
      <dl class="numbers">
        <Number label="Gateways" value={count('gateway')} more="take reports in" needed />
        <Number label="Workers" value={count('worker')} more="count reports" needed />
        <Number label="Drivers" value={count('driver')} more="drive streams" needed />
        <div>
          <dt>Partitions</dt>
          <dd class={unread > 0 ? 'bad' : ''}>{whole(partitions.length)}</dd>
          <dd>{unread > 0 ? `${whole(unread)} without a reader` : 'each with a reader'}</dd>
        </div>
        <div>
          <dt>Records not counted</dt>
          <dd>{lag === null ? '–' : whole(lag)}</dd>
          <dd>{cluster.log_problem ?? 'in the log'}</dd>
        </div>
      </dl>
      <Processes processes={processes} partitions={partitions} now={cluster.now} />
      <Partitions partitions={partitions} />
    </>
  );
}

function Number(props: { label: string; value: number; more: string; needed: boolean }) {
  return (
    <div>
      <dt>{props.label}</dt>
      <dd class={props.needed && props.value === 0 ? 'bad' : ''}>{whole(props.value)}</dd>
      <dd>{props.value === 0 ? 'none is alive' : props.more}</dd>
    </div>
  );
}

function Processes(props: { processes: ClusterProcess[]; partitions: ClusterPartition[]; now: number }) {
  if (!props.processes.length) return <Empty title="No process is alive">Start gateways, workers and drivers.</Empty>;
  const read = holders(props.partitions);
  return (
    <section class="card stack tight" aria-label="Processes">
      <h2>Processes</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Processes of the cluster">
        <table>
          <thead>
            <tr>
              <th scope="col">Process</th>
              <th scope="col">Role</th>
              <th scope="col">Started</th>
              <th scope="col">Partitions</th>
              <th scope="col">Figures</th>
            </tr>
          </thead>
          <tbody>
            {props.processes.map((process) => (
              <tr key={process.name}>
                <th scope="row" title={process.name}>
                  {process.name.slice(0, 12)}
                </th>
                <td>{process.role}</td>
                <td title={moment(process.started)}>{ago(process.started, props.now)}</td>
                <td>{read.get(process.name)?.join(', ') ?? '–'}</td>
                <td class="soft">
                  {Object.entries(process.figures ?? {})
                    .map(([name, figure]) => `${name} ${typeof figure === 'number' ? whole(figure) : String(figure)}`)
                    .join(', ')}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Partitions(props: { partitions: ClusterPartition[] }) {
  return (
    <section class="card stack tight" aria-label="Partitions">
      <h2>Partitions of the log</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Partitions of the log">
        <table>
          <thead>
            <tr>
              <th scope="col" class="number">
                Partition
              </th>
              <th scope="col">Read by</th>
              <th scope="col" class="number">
                Epoch
              </th>
              <th scope="col" class="number">
                Counted up to
              </th>
              <th scope="col" class="number">
                Records not counted
              </th>
            </tr>
          </thead>
          <tbody>
            {props.partitions.map((partition) => (
              <tr key={partition.number}>
                <th scope="row" class="number">
                  {partition.number}
                </th>
                <td class={partition.holder === null ? 'bad' : ''} title={partition.holder ?? undefined}>
                  {partition.holder?.slice(0, 12) ?? 'nobody'}
                </td>
                <td class="number">{whole(partition.epoch)}</td>
                <td class="number">{whole(partition.counted)}</td>
                <td class="number">{partition.lag === null ? '–' : whole(partition.lag)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="soft small">
        Reports of devices only. Events of curated streams are not counted anywhere: their number would reveal who is
        present.
      </p>
    </section>
  );
}

// Predicted errors in units that people think in.

import { familyOf, type Form } from './form';

const METRICS: Record<string, string> = {
  mse: 'mean squared error',
  mae: 'mean absolute error',
  mre: 'mean relative error',
  amre: 'mean relative error',
  error_rate: 'share of wrong symbols',
  ajsd: 'Jensen–Shannon divergence',
  histogram_distance: 'distance of histograms',
};

export interface Measure {
  label: string;
  /** A predicted error in the unit of the label. */
  of(error: number): number;
}

/** A mean squared error as its root: in users, in percent of the users, or in the unit of the number. */
export function measureOf(metric: string, form: Form): Measure {
  const root = (factor: number) => (error: number) => Math.sqrt(Math.max(error, 0)) * factor;
  if (metric === 'mse') {
    switch (familyOf(form)) {
      case 'central':
        return { label: 'root mean squared error of a value, in users', of: root(Number(form.population)) };
      case 'local':
        return { label: 'root mean squared error of a value, in percent of the users', of: root(100) };
      case 'scalar':
        return { label: 'root mean squared error, in the unit of the number', of: root(1) };
    }
  }
  const isShare = ['mre', 'amre', 'error_rate'].includes(metric);
  const name = METRICS[metric] ?? metric;
  return isShare ? { label: `${name}, in percent`, of: (error) => error * 100 } : { label: name, of: (error) => error };
}

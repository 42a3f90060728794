// The JSON of the service that this page reads. docs/service.md describes it.

export type Role = 'operator' | 'analyst' | 'ingest';
export type Freshness = 'fresh' | 'approximated' | 'nullified';
export type Unit = 'frequencies' | 'counts';
export type Value = string | number;

export interface MonitorSpec {
  name: string;
  value?: Value;
  first?: Value;
  last?: Value;
  delta?: number;
  unit?: Unit;
  score?: 'level' | 'change';
  shift?: number;
  direction: 'above' | 'below';
  start: number;
  end?: number;
  confidence?: number;
}

export interface QuerySpec {
  name?: string;
  value?: Value;
  first?: Value;
  last?: Value;
  top?: number;
  delta?: number;
  unit?: Unit;
  confidence?: number;
}

export interface PrivacyClass {
  name: string;
  epsilon: number | string;
  window: number;
}

export interface NumberDomain {
  low: number | string;
  high: number | string;
  resolution?: number | string;
  missing?: number | string;
}

export interface Spec {
  family: 'local' | 'central' | 'scalar' | 'sequence';
  mechanism: string;
  epsilon?: number | string;
  window?: number;
  budget?: number | string;
  domain?: string[] | number | NumberDomain;
  classes?: PrivacyClass[];
  neighbours?: 'add_remove' | 'replace';
  protects?: 'reading' | { contributor: number | string };
  population?: number;
  every?: string;
  delay?: number;
  guarantee?: 'sequence' | 'local';
  monitors?: MonitorSpec[];
  queries?: QuerySpec[];
  [key: string]: unknown;
}

export interface Declaration {
  name: string;
  tick: number;
  epoch?: number;
  lateness?: number;
  backfill?: boolean;
  credentials?: boolean;
  spec: Spec;
  webhooks?: string[];
  retention?: { age?: string; timestamps?: number };
}

export type Status = 'running' | 'paused' | 'retired';

export interface Stream extends Declaration {
  status: Status;
  version: number;
  published: number;
  open: number | null;
  timestamp: number | null;
  driven: boolean;
  problem: string | null;
}

export type Numbers = (number | null)[];

export type Statistic =
  | { histogram: { frequencies: number[]; variances: Numbers } }
  | { counts: { counts: number[]; variances: Numbers } }
  | { number: { value: number; variance: number | null } }
  | { tree: { shape: number; frequencies: number[]; variances: Numbers } };

export type Spent =
  null | string | { first_slot: number; slots: number; epsilon: string } | { class: number; epsilon: string }[];

export interface Release {
  timestamp: number;
  statistic: Statistic;
  freshness: Freshness;
  spent: Spent;
  reports?: number;
  seeded?: boolean;
  why?: Why;
  suspicious?: string[];
}

export interface ReleaseRecord {
  number: number;
  version: number;
  timestamp: number;
  time?: string;
  release: Release;
}

export interface Said {
  value: number;
  variance: number | null;
  low?: number;
  high?: number;
  unit: Unit;
  first: number;
  last: number;
  spans_more_than_one_window: boolean;
}

export interface Answer extends Partial<Said> {
  t: number;
  query?: string;
  monitor?: string;
  event?: 'started' | 'ended';
  confidence?: number;
  top?: (Said & { of: string })[];
}

export interface AnswerRecord {
  number: number;
  version: number;
  timestamp: number;
  time?: string;
  answer: Answer;
}

export interface Problem {
  error: string;
  message: string;
}

// Below: what the dashboard's own routes answer.

export interface TokenInfo {
  name: string;
  role: Role;
  advises: boolean;
  clustered: boolean;
  now: number;
  version: string;
}

export interface OverviewRow {
  name: string;
  family: Spec['family'];
  mechanism: string;
  shows: 'frequencies' | 'counts' | 'tree' | 'number' | 'symbols';
  status: Status;
  problem: boolean;
  driven: boolean;
  tick: number;
  timestamp: number | null;
  last: { timestamp: number; through: number; freshness: Freshness; suspicious: boolean; time?: string } | null;
  lag: number | null;
  budget_left: number | null;
  alarms: { active: number; unacknowledged: number } | null;
}

export interface Overview {
  now: number;
  streams: OverviewRow[];
  next: string | null;
}

export interface SparklineData {
  stream: string;
  value: string | null;
  timestamps: number[];
  values: number[];
  deviations: Numbers;
  freshness: Freshness[];
}

export interface Asked {
  purpose: string;
  epsilon: string;
  share: number;
  questions: number;
  oracle?: string;
  reports?: number;
  class?: number;
}

export interface Why {
  reason: string;
  asked?: Asked[];
  dissimilarity?: number;
  error?: number;
  measure?: 'mean_square' | 'mean_distance';
  every?: number;
}

export interface BudgetHistory {
  class: string | null;
  history: { timestamp: number; spent: number; left: number }[];
  next: { timestamp: number; left: number }[];
  complete: boolean;
}

export interface PromiseInfo {
  stream: string;
  family: Spec['family'];
  mechanism: string;
  trust: 'device' | 'curator';
  unit: 'user' | 'reading' | 'contribution' | 'symbol';
  relation:
    | 'window_of_one_user'
    | 'add_or_remove_one_user'
    | 'replace_one_users_value'
    | 'one_reading'
    | 'one_contribution'
    | 'one_symbol';
  division: 'budget' | 'population' | 'timestamp' | 'device';
  guarantees: { class: string | null; epsilon: string; window: number | null; seconds: number | null }[];
  contribution?: number;
  budget: BudgetHistory[];
}

export interface Alarm {
  number: number;
  timestamp: number;
  time?: string;
  monitor: string;
  ended: number | null;
  ended_number: number | null;
  acknowledged: { by: string; at: number } | null;
}

export interface Ranked {
  mechanism: string;
  error: number;
  low: number;
  high: number;
  method: string;
}

export interface Advice {
  ranking: Ranked[];
  unpredicted: { mechanism: string; why: string }[];
  metric: string;
  why: string | null;
  otherwise: string | null;
  mechanism: string | null;
  declaration: Declaration | null;
  toml: string | null;
}

export interface StreamOperations {
  stream: string;
  accepted: number;
  refused: Record<string, number>;
  suspicious: number;
  skipped: number;
  lag_seconds: number | null;
}

export interface Operations {
  now: number;
  version: string;
  started: number;
  streams: { running: number; paused: number; retired: number; problems: number; undriven: number };
  reports: { accepted: number; repeated: number; refused: Record<string, number>; queued_batches: number };
  releases: number;
  skipped_ticks: number;
  driver_errors: number;
  suspicious: Record<string, number>;
  slowest: { stream: string; lag_seconds: number } | null;
  store_bytes: number | null;
  webhooks: Record<string, number>;
  by_stream: StreamOperations[];
}

export interface ClusterProcess {
  name: string;
  role: 'gateway' | 'worker' | 'driver';
  started: number;
  figures: Record<string, unknown> | null;
}

export interface ClusterPartition {
  number: number;
  holder: string | null;
  epoch: number;
  counted: number;
  end: number | null;
  lag: number | null;
}

export interface Cluster {
  now: number;
  processes: ClusterProcess[];
  partitions: ClusterPartition[];
  log_problem: string | null;
}

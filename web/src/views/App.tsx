import { useEffect } from 'preact/hooks';
import { isSignedIn, mayOperate, role, signOut } from '../state/session';
import { route } from '../state/route';
import { tokenInfo } from '../state/token';
import { theme, type Theme } from '../ui/theme';
import { Empty } from '../ui/parts';
import { Brand } from './Brand';
import { ClusterView } from './Cluster';
import { CreateView } from './Create';
import { OperationsView } from './Operations';
import { OverviewView } from './Overview';
import { SignIn } from './SignIn';
import { StreamView } from './Stream';

const THEMES: Record<Theme, { next: Theme; label: string; sign: string }> = {
  auto: { next: 'light', label: 'Colours of the system', sign: '◐' },
  light: { next: 'dark', label: 'Light colours', sign: '☀' },
  dark: { next: 'auto', label: 'Dark colours', sign: '☾' },
};

export function App() {
  const [section = '', name] = route.value.path;
  useEffect(() => {
    document.title = name ? `${name} · tidegate` : section ? `${section} · tidegate` : 'tidegate';
  }, [section, name]);
  if (!isSignedIn.value) return <SignIn />;
  if (role.value === 'ingest') return <IngestOnly />;
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.getElementById('main')?.focus())}
      >
        Skip to the content
      </a>
      <Bar section={section} />
      <main id="main" tabIndex={-1}>
        <Page section={section} name={name} />
      </main>
    </>
  );
}

function Page(props: { section: string; name: string | undefined }) {
  switch (props.section) {
    case '':
      return <OverviewView />;
    case 'streams':
      return props.name ? <StreamView key={props.name} name={props.name} /> : <OverviewView />;
    case 'create':
      if (mayOperate.value) return <CreateView />;
      break;
    case 'operations':
      return <OperationsView />;
    case 'cluster':
      if (mayOperate.value) return <ClusterView />;
      break;
  }
  return (
    <Empty title="There is no such page">
      <a href="#/">All streams</a>
    </Empty>
  );
}

function Bar(props: { section: string }) {
  const { section } = props;
  const link = (address: string, label: string, isHere: boolean) => (
    <a href={address} aria-current={isHere ? 'page' : undefined}>
      {label}
    </a>
  );
  const { next, label, sign } = THEMES[theme.value];
  const name = tokenInfo.value?.name;
  return (
    <header class="bar">
      <div>
        <a class="brand" href="#/" aria-label="tidegate, all streams">
          <Brand />
          <span>tidegate</span>
        </a>
        <nav aria-label="Pages">
          {link('#/', 'Streams', section === '' || section === 'streams')}
          {link('#/operations', 'Operations', section === 'operations')}
          {mayOperate.value &&
            tokenInfo.value?.clustered === true &&
            link('#/cluster', 'Cluster', section === 'cluster')}
          {mayOperate.value && link('#/create', 'New stream', section === 'create')}
        </nav>
        <span class="chip who" title={name ? `Token “${name}”` : undefined}>
          {role.value ?? 'signed in'}
        </span>
        <button
          type="button"
          class="plain"
          title={label}
          aria-label={`${label}: change`}
          onClick={() => (theme.value = next)}
        >
          <span aria-hidden="true">{sign}</span>
        </button>
        <button type="button" onClick={() => signOut()}>
          Sign out
        </button>
      </div>
    </header>
  );
}

function IngestOnly() {
  return (
    <main class="sign-in">
      <div class="card">
        <h1>This token sends data</h1>
        <p>
          A token of the role ingest may send reports and events, and read nothing. Sign in with an analyst’s or an
          operator’s token.
        </p>
        <div>
          <button type="button" class="primary" onClick={() => signOut()}>
            Sign out
          </button>
        </div>
      </div>
    </main>
  );
}

import { render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './styles/base.css';
import './styles/layout.css';
import './styles/charts.css';
import { watchAddress } from './state/route';
import { begin } from './state/session';
import { watchToken } from './state/token';
import { watchTheme } from './ui/theme';
import { App } from './views/App';

// First of all: the token leaves the address before anything else reads it.
begin();
watchAddress();
watchTheme();
watchToken();
render(<App />, document.getElementById('app')!);

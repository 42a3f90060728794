'use strict';

// Streams with their ticks and the latest release of each, live. The token is kept in this tab only.
const $ = (id) => document.getElementById(id);
const SVG = 'http://www.w3.org/2000/svg';
const KEY = 'tidegate token';
const POINTS = 60;
let running = null;

const fragment = new URLSearchParams(location.hash.slice(1)).get('token');
if (fragment) {
  sessionStorage.setItem(KEY, fragment);
  // Not in the history, nor in what is copied from the address bar.
  history.replaceState(null, '', location.pathname);
}

function say(text, isProblem) {
  $('message').textContent = text;
  $('message').className = isProblem ? 'problem' : '';
}

async function call(path, options = {}) {
  const headers = { ...(options.headers || {}), authorization: `Bearer ${sessionStorage.getItem(KEY) || ''}` };
  const response = await fetch(path, { ...options, headers, cache: 'no-store' });
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw new Error(problem.message || `status ${response.status}`);
  }
  return response;
}

function element(kind, text, className) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function shape(kind, attributes) {
  const made = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// The numbers of a release with their variances.
function numbers(statistic) {
  const [kind, inside] = Object.entries(statistic)[0];
  if (kind === 'histogram') return [inside.frequencies, inside.variances];
  if (kind === 'counts') return [inside.counts, inside.variances];
  if (kind === 'number') return [[inside.value], [inside.variance]];
  // Of a tree, its leaves: they come last, and `shape` is how many there are.
  if (kind === 'tree') return [inside.frequencies.slice(-inside.shape), inside.variances.slice(-inside.shape)];
  return [[], []];
}

function names(spec) {
  return Array.isArray(spec.domain) ? spec.domain : null;
}

// Standard deviations; null where a release states no variance.
function deviations(variances) {
  return variances.map((variance) => (variance === null ? null : Math.sqrt(Math.max(variance, 0))));
}

// A number with its error.
function told(value, error) {
  return `${value.toPrecision(4)} ${error === null ? '(its error is not stated)' : `± ${error.toPrecision(2)}`}`;
}

// Bars with an error of one standard deviation, where one is stated; for a stream of numbers, the last ones as a line.
function draw(svg, stream, releases) {
  svg.replaceChildren();
  const last = releases[releases.length - 1];
  if (!last) return;
  const width = 300;
  const height = 100;
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  const title = shape('title', {});
  const [values, variances] = numbers(last.release.statistic);
  const errors = deviations(variances);
  if ('number' in last.release.statistic) {
    const points = releases.slice(-POINTS).map((one) => numbers(one.release.statistic)[0][0]);
    const low = Math.min(...points);
    const high = Math.max(...points);
    const y = (value) => height - 5 - ((value - low) / (high - low || 1)) * (height - 10);
    const x = (place) => (points.length > 1 ? (place / (points.length - 1)) * width : width / 2);
    svg.append(shape('polyline', { points: points.map((value, place) => `${x(place)},${y(value)}`).join(' ') }));
    title.textContent = `the last ${points.length} releases: ${told(values[0], errors[0])} at timestamp ${last.timestamp}`;
  } else {
    const high = Math.max(1e-9, ...values.map((value, place) => value + (errors[place] ?? 0)));
    const low = Math.min(0, ...values);
    const y = (value) => ((high - value) / (high - low)) * (height - 2) + 1;
    const step = width / values.length;
    values.forEach((value, place) => {
      const top = Math.min(y(value), y(0));
      const bar = shape('rect', { x: (place + 0.1) * step, y: top, width: 0.8 * step, height: Math.abs(y(value) - y(0)) });
      const label = shape('title', {});
      label.textContent = `${names(stream.spec) ? names(stream.spec)[place] : place}: ${told(value, errors[place])}`;
      bar.append(label);
      svg.append(bar);
      if (values.length <= 64 && errors[place] !== null) {
        const middle = (place + 0.5) * step;
        svg.append(shape('line', { class: 'error', x1: middle, x2: middle, y1: y(value + errors[place]), y2: y(value - errors[place]) }));
      }
    });
    svg.append(shape('line', { class: 'zero', x1: 0, x2: width, y1: y(0), y2: y(0) }));
    title.textContent = `the release of timestamp ${last.timestamp}: ${values.length} values`;
  }
  svg.prepend(title);
}

// Server-sent events by fetch, which can send a token, unlike EventSource.
async function follow(name, since, signal, take) {
  let id = null;
  while (!signal.aborted) {
    try {
      const headers = id ? { 'last-event-id': id } : {};
      const path = `v1/streams/${name}/feed${id ? '' : `?since=${since}`}`;
      const response = await call(path, { headers, signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
        let end;
        while ((end = text.indexOf('\n\n')) >= 0) {
          const event = {};
          for (const line of text.slice(0, end).split('\n')) {
            const colon = line.indexOf(':');
            if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
          }
          text = text.slice(end + 2);
          if (event.id) id = event.id;
          if (event.data) take(event.event, JSON.parse(event.data));
        }
      }
    } catch (error) {
      if (signal.aborted) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

async function show(stream, signal) {
  const section = document.createElement('section');
  const about = element('p', '');
  const state = element('p', '');
  const said = element('p', '');
  const svg = shape('svg', {});
  section.append(element('h2', stream.name), about, state, svg, said);
  $('streams').append(section);
  const { spec } = stream;
  about.textContent = `${spec.family} · ${spec.mechanism} · ε ${spec.epsilon}${spec.window ? ` in ${spec.window} ticks` : ''} · a tick is ${stream.tick} s`;
  const tell = (now) => {
    state.textContent = `${now.status}, tick ${now.timestamp ?? 'not begun'}${now.open === null ? '' : `, open: ${now.open}`}`;
    state.className = '';
    if (now.problem) {
      state.textContent += ` · ${now.problem}`;
      state.className = 'problem';
    }
  };
  tell(stream);
  const before = await (await call(`v1/streams/${stream.name}/releases?last=${POINTS}`, { signal })).json();
  const releases = before.releases;
  const redraw = () => {
    draw(svg, stream, releases);
    const last = releases[releases.length - 1];
    said.textContent = last ? `released: tick ${last.timestamp}, ${last.release.freshness}` : 'nothing is released yet';
  };
  redraw();
  follow(stream.name, 'now', signal, (kind, data) => {
    if (kind !== 'release') return;
    releases.push(data);
    if (releases.length > POINTS) releases.shift();
    redraw();
  });
  (async () => {
    while (!signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, Math.min(Math.max(stream.tick * 500, 1000), 15000)));
      try {
        tell(await (await call(`v1/streams/${stream.name}`, { signal })).json());
      } catch (error) {
        if (signal.aborted) return;
        state.textContent = String(error.message);
        state.className = 'problem';
      }
    }
  })();
}

async function start() {
  if (running) running.abort();
  running = new AbortController();
  $('streams').replaceChildren();
  if (!sessionStorage.getItem(KEY)) {
    say('A token shows the streams: type it in, or open this page with #token=… behind its address.');
    return;
  }
  try {
    const { streams } = await (await call('v1/streams', { signal: running.signal })).json();
    say(streams.length ? '' : 'There are no streams yet.');
    for (const stream of streams) await show(stream, running.signal);
  } catch (error) {
    say(String(error.message), true);
  }
}

$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $('token').value.trim());
  $('token').value = '';
  start();
});
start();

import { useEffect, useRef, useState } from 'preact/hooks';
import { messageOf } from '../../api/client';
import { releasesText } from '../../api/routes';
import type { Stream } from '../../api/types';
import { heatPixels, heatScale } from '../../charts/heat';
import { chartSvg, svgToPng } from '../../charts/svg';
import type { TimeChartData } from '../../charts/time';
import { moment } from '../../data/format';
import type { Range } from '../../data/ranges';
import type { Series } from '../../data/series';
import { save } from '../../ui/parts';
import { confidenceOf, type ViewName } from './model';

const WIDTH = 1200;
const HEIGHT = 600;
const FORMATS = [
  { key: 'csv', label: 'Table (CSV)' },
  { key: 'ndjson', label: 'Lines of JSON (NDJSON)' },
  { key: 'png', label: 'Picture (PNG)' },
  { key: 'svg', label: 'Picture (SVG)' },
] as const;
type Format = (typeof FORMATS)[number]['key'];

export interface DownloadProps {
  stream: Stream;
  series: Series;
  data: TimeChartData;
  view: ViewName;
  range: Range;
}

/** What is in view, as a file. Tables are the service's own, so they have every value. */
export function Downloads(props: DownloadProps) {
  const [open, setOpen] = useState(false);
  const [said, setSaid] = useState<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    box.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
    const close = (event: Event): void => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    addEventListener('pointerdown', close);
    addEventListener('focusin', close);
    return () => {
      removeEventListener('pointerdown', close);
      removeEventListener('focusin', close);
    };
  }, [open]);
  const keys = (event: KeyboardEvent): void => {
    const items = [...(box.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    if (event.key === 'Escape') {
      setOpen(false);
      box.current?.querySelector<HTMLElement>('button')?.focus();
    } else if (open && event.key === 'ArrowDown') items[(at + 1) % items.length]?.focus();
    else if (open && event.key === 'ArrowUp') items[(at - 1 + items.length) % items.length]?.focus();
    else return;
    event.preventDefault();
  };
  const download = async (format: Format): Promise<void> => {
    setOpen(false);
    setSaid(null);
    try {
      await write(props, format);
    } catch (error) {
      setSaid(messageOf(error));
    }
  };
  return (
    <div class="group last">
      <span aria-hidden="true">Save</span>
      <div ref={box} class="menu" onKeyDown={keys}>
        <button type="button" aria-haspopup="menu" aria-expanded={open} onClick={() => setOpen(!open)}>
          Download ▾
        </button>
        {open && (
          <div role="menu" aria-label="Download">
            {FORMATS.map(({ key, label }) => (
              <button type="button" role="menuitem" tabIndex={-1} key={key} onClick={() => void download(key)}>
                {label}
              </button>
            ))}
          </div>
        )}
      </div>
      {said && (
        <small class="bad" role="alert">
          {said}
        </small>
      )}
    </div>
  );
}

async function write(props: DownloadProps, format: Format): Promise<void> {
  const { stream, series, range } = props;
  const [first, last] = series.between(range.from, range.to);
  const name = `${stream.name}.${format}`;
  if (format === 'csv' || format === 'ndjson') {
    const page = { from: series.timestamps[first] ?? 0, to: series.timestamps[last - 1] ?? 0, limit: 10_000 };
    const text = await releasesText(stream.name, format, page);
    save(name, new Blob([text], { type: format === 'csv' ? 'text/csv' : 'application/x-ndjson' }));
    return;
  }
  const svg = picture(props);
  save(name, format === 'svg' ? new Blob([svg], { type: 'image/svg+xml' }) : await svgToPng(svg, WIDTH, HEIGHT));
}

function picture(props: DownloadProps): string {
  const { stream, series, data, range, view } = props;
  const period = `${moment(range.from, stream.tick)} – ${moment(range.to, stream.tick)}`;
  const { spec } = stream;
  const epsilon =
    spec.epsilon === undefined ? '' : `, ε ${spec.epsilon}${spec.window ? ` in ${spec.window} ticks` : ''}`;
  const bands =
    view === 'stack' || view === 'heat'
      ? ''
      : `; bands hold the truth with about ${confidenceOf() * 100} % probability`;
  const options = {
    title: stream.name,
    subtitle: `${period}. ${spec.family}.${spec.mechanism}${epsilon}${bands}`,
    range,
    width: WIDTH,
    height: HEIGHT,
  };
  if (view !== 'heat') return chartSvg(data, options);
  const size = { width: 1000, height: Math.min(Math.max(series.leaves * 8, 200), 800) };
  const scale = heatScale(series, series.between(range.from, range.to));
  const canvas = document.createElement('canvas');
  Object.assign(canvas, size);
  const pixels = heatPixels(series, { range, tick: stream.tick, scale, ...size });
  canvas.getContext('2d')!.putImageData(new ImageData(pixels, size.width, size.height), 0, 0);
  return chartSvg(data, { ...options, picture: canvas.toDataURL('image/png') });
}

// The tree of one release: a row for each level, the root on top. A node that is chosen becomes a line over time.

import { useRef } from 'preact/hooks';
import { amount } from '../data/format';
import { halfWidth, type Confidence, type Series } from '../data/series';
import { heightOf, nodesOf } from '../data/tree';
import { heat } from '../ui/theme';
import type { Pick } from '../data/lines';
import { useWidth } from './frame';

const ROW = 34;

export interface TreeViewProps {
  series: Series;
  place: number;
  confidence: Confidence;
  chosen: Pick | null;
  onChoose(pick: Pick): void;
}

export function TreeView(props: TreeViewProps) {
  const { series, place, chosen } = props;
  const box = useRef<HTMLDivElement>(null);
  const width = Math.max(useWidth(box), 200);
  const domain = series.leaves;
  const nodes = nodesOf(domain);
  const each = width / domain;
  // Density tells wide nodes from narrow ones: a share, by how many values it is of.
  const densities = nodes.map((node) => series.value(node.place, place) / (node.last - node.first + 1));
  // Where all values are equally frequent, the colour is the middle one.
  const most = Math.max(...densities, 2 / domain);
  const keys = (event: KeyboardEvent): void => {
    const all = [...(box.current?.querySelectorAll<SVGGElement>('g[role=button]') ?? [])];
    const at = all.indexOf(event.currentTarget as SVGGElement);
    const node = nodes[at]!;
    const find = (level: number, index: number): number =>
      nodes.findIndex((one) => one.level === level && one.index === index);
    const targets: Record<string, number> = {
      ArrowRight: find(node.level, node.index + 1),
      ArrowLeft: find(node.level, node.index - 1),
      ArrowUp: find(node.level - 1, node.index >> 1),
      ArrowDown: find(node.level + 1, node.index * 2),
    };
    const target = targets[event.key];
    if (event.key === 'Enter' || event.key === ' ') props.onChoose({ first: node.first, last: node.last });
    else if (target !== undefined && target >= 0) all[target]?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <div ref={box} class="icicle">
      <svg
        class="figure"
        viewBox={`0 0 ${width} ${(heightOf(domain) + 1) * ROW}`}
        height={(heightOf(domain) + 1) * ROW}
        role="group"
        aria-label="Tree of ranges. Arrow keys move, Enter shows the range over time."
      >
        {nodes.map((node, index) => {
          const value = series.value(node.place, place);
          const half = halfWidth(series.variance(node.place, place), props.confidence);
          const [red, green, blue] = heat(densities[index]! / most);
          const isDark = red * 0.299 + green * 0.587 + blue * 0.114 < 140;
          const name =
            node.first === node.last
              ? series.nameOf(node.first)
              : `${series.nameOf(node.first)} to ${series.nameOf(node.last)}`;
          const share = amount(value, true);
          const text = `${name}: ${share}${half === null ? ', error not stated' : ` ± ${amount(half, true, 2)}`}`;
          const isChosen = chosen !== null && chosen.first === node.first && chosen.last === node.last;
          const size = (node.last - node.first + 1) * each;
          return (
            <g
              key={index}
              role="button"
              tabindex={isChosen || (!chosen && index === 0) ? 0 : -1}
              aria-pressed={isChosen}
              onClick={() => props.onChoose({ first: node.first, last: node.last })}
              onKeyDown={keys}
            >
              <title>{text}</title>
              <rect
                x={node.first * each}
                y={node.level * ROW}
                width={size}
                height={ROW - 2}
                rx="3"
                fill={`rgb(${red},${green},${blue})`}
              />
              {size > 42 && (
                <text x={node.first * each + 6} y={node.level * ROW + 20} style={{ fill: isDark ? '#fff' : '#111' }}>
                  {size > 130 && name.length <= 18 ? `${name}: ${share}` : share}
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

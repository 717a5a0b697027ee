// Charts of the last hours, from the samples that weir keeps.
import { html, num, bytes, rate, span, query } from './lib.js';
import { Load } from './fetch.js';
import { View } from './parts.js';
import { Chart, spans, twos, wholes } from './chart.js';

const times = ['15m', '1h', '3h', '6h'];
const originColours = ['accent', 'good', 'warn', 'bad', 'other'];

export function Charts({ since }) {
  const path = `/series${query({ since })}`;
  return html`<${View} name="charts" title="Charts" json=${path} sub="A sample each ten seconds, of the last six hours.">
    <div class="choice" role="group" aria-label="Time">${times.map((t) => html`<a key=${t} href=${`#/charts?since=${t}`} aria-current=${t === since ? 'true' : undefined}>${t}</a>`)}</div>
    <${Load} path=${path} every=${10000}>${(d) => {
    const by = (column, map = (v) => v) => d.origins.slice(0, originColours.length).map((name, i) => [name, originColours[i], d.by_origin[name][column].map(map)]);
    const one = (title, name, values, format, more) => html`<${Chart} title=${title} at=${d.at} lines=${[[title.toLowerCase(), name, values]]} format=${format} ...${more} />`;
    if (!d.at.length) return html`<p class="note dim">The first sample is taken in a moment.</p>`;
    return html`<div class="charts">
      ${one('In sync', 'good', d.in_sync_percent, (v) => `${v}%`, { max: 100 })}
      <${Chart} title="Clients" at=${d.at} steps=${wholes} format=${(v) => num(Math.round(v))} lines=${[['clients', 'accent', d.clients], ['not in sync', 'warn', d.unsynced], ['rejecting', 'bad', d.nacking]]} />
      ${one('Worst lag', 'warn', d.worst_lag_seconds, span, { steps: spans })}
      <${Chart} title="Changes per second" at=${d.at} format=${rate} lines=${d.origins.length ? by('changes_per_second') : [['changes', 'accent', d.changes_per_second]]} />
      ${one('Deliveries per second', 'accent', d.deliveries_per_second, rate)}
      ${one('Bytes per second', 'accent', d.bytes_per_second, bytes, { steps: twos })}
      ${one('NACKs per second', 'bad', d.nacks_per_second, rate)}
      ${one('Memory', 'other', d.heap_bytes, bytes, { steps: twos })}
      ${d.origins.length > 0 && html`<${Chart} title="Stale resources" at=${d.at} steps=${wholes} format=${(v) => num(Math.round(v))} lines=${by('stale')} />
        <${Chart} title="Origins connected" at=${d.at} max=${1.1} format=${(v) => (v === 1 ? 'yes' : v === 0 ? 'no' : '')} lines=${by('connected')} />`}
    </div>`;
  }}<//>
  <//>`;
}

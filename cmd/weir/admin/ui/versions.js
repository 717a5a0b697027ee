// The versions of a resource, and the difference between two of them.
import { html, Component, Ago, bytes, query, isTime } from './lib.js';
import { Load } from './fetch.js';
import { Table } from './parts.js';
import { Diff } from './diff.js';

const missing = 'This weir keeps no history of it (cache.history).';
const label = (v) => v.origin_version || v.version;

export class Versions extends Component {
  constructor(props) {
    super(props);
    this.state = { from: '', to: '' };
  }
  render({ origin, group, type, name }, s) {
    const of = { origin, group, type, name };
    return html`<section class="panel"><h3>Versions</h3>
      <${Load} path=${`/history${query(of)}`} every=${5000} missing=${missing}>${(d) => {
    const all = d.versions ?? [];
    if (d.kept?.off) return html`<p class="note">${missing}</p>`;
    if (!all.length) return html`<p class="note dim">None is kept yet.</p>`;
    const to = all.find((v) => v.version === s.to) ?? all[0];
    const before = all.filter((v) => v.version !== to.version && v.parameters === to.parameters);
    const from = before.find((v) => v.version === s.from) ?? before[0];
    const pick = (which, v, now) => html`<input type="radio" name=${which} value=${v.version} checked=${v === now} aria-label=${`${which} ${label(v)}`} onChange=${() => this.setState({ [which]: v.version })} />`;
    return html`<${Table} label="Versions" rows=${all} attrs=${(v) => ({ key: [v.version, v.since, v.parameters].join(' ') })} columns=${[
      { head: 'From', cell: (v) => pick('from', v, from) }, { head: 'To', cell: (v) => pick('to', v, to) },
      { head: 'Version', sort: label, cell: (v) => html`<code>${label(v)}</code>` },
      { head: 'Parameters', sort: (v) => v.parameters, cell: (v) => v.parameters },
      { head: 'Since', num: true, sort: (v) => isTime(v.since) && -Date.parse(v.since), cell: (v) => html`<${Ago} at=${v.since} none="before" />` },
      { head: 'Until', num: true, sort: (v) => (isTime(v.until) ? -Date.parse(v.until) : -Infinity), cell: (v) => (isTime(v.until) ? html`<${Ago} at=${v.until} />` : 'now') },
      { head: 'Source', sort: (v) => v.source, cell: (v) => v.source }, { head: 'Bytes', num: true, sort: (v) => v.bytes ?? 0, cell: (v) => bytes(v.bytes ?? 0) },
    ]} />
      ${from?.version && html`<${Load} path=${`/history/diff${query({ ...of, from: from.version, to: to.version })}`} every=${0}>${(x) => html`
        <${Diff} text=${x.unified} empty="They are the same, as far as they may be shown." />`}<//>`}`;
  }}<//></section>`;
  }
}

// The configuration in force, and the process: readiness, snapshot, certificates, memory, drain.
import { html, Ago, num, bytes, page, plural, isTime } from './lib.js';
import { Load } from './fetch.js';
import { View, Facts, Badge, Action, Code } from './parts.js';
import { live, Watching } from './live.js';

function Refused({ c }) {
  if (!isTime(c.refused)) return null;
  return html`<section class="panel is-bad"><h3>The configuration file was refused</h3>
    <p><${Ago} at=${c.refused} />; ${isTime(c.accepted) ? html`what was accepted last, <${Ago} at=${c.accepted} />, is in force` : 'what was in force before stays'}.</p>
    <ul class="errors">${(c.problems ?? []).map((p) => html`<li key=${p}><code>${p}</code></li>`)}</ul></section>`;
}

function Snapshot({ s }) {
  if (!s) return html`<section class="panel"><h3>Snapshot</h3><p class="dim">None is configured.</p></section>`;
  const left = s.left_out ?? {};
  return html`<section class="panel"><h3>Snapshot ${s.error ? html`<${Badge} state="bad">not written<//>` : html`<${Badge} state="good">whole<//>`}</h3>
    ${s.error && html`<p class="note is-bad">${s.error}</p>`}
    <${Facts} of=${[
    ['File', html`<code>${s.path}</code>`], ['Last whole', html`<${Ago} at=${s.saved_at} />`], ['Resources', num(s.resources)], ['Size', bytes(s.bytes)], ['Key', s.key],
    ['Restored at the start', s.restored && num(s.restored)], ['Lost', s.lost && num(s.lost)],
    ['Left out, being secrets', left.secrets && num(left.secrets)], ['Left out, with private keys', left.with_private_keys && num(left.with_private_keys)],
    ['Left out for max_bytes', s.left_out_groups?.groups && plural(s.left_out_groups.groups, 'group')],
  ]} />
    ${s.left_out_groups?.too_large?.map((t) => html`<p key=${t} class="note is-warn">${t}</p>`)}</section>`;
}

export class Config extends Watching {
  render() {
    const o = live.overview;
    const ready = o?.ready;
    return html`<${View} name="config" title="Configuration" json="/config">
      ${o && html`<${Refused} c=${o.config} />
      <div class="columns">
        <section class="panel"><h3>Process <${Badge} state=${ready.ready ? 'good' : 'bad'}>${ready.state}<//></h3>
          ${ready.why && html`<p class="note">${ready.why}</p>`}
          <${Facts} of=${[
    ['Version', o.version], ['Up', html`<${Ago} at=${o.started} suffix=${false} />`], ['In force', html`<${Ago} at=${o.config.since} />`], ['File', o.config.file && html`<code>${o.config.file}</code>`],
    ['SHA-256', html`<code class="clip">${o.config.hash}</code>`],
    ['Memory', o.memory?.limit > 0 && html`${bytes(o.memory.used)} of ${bytes(o.memory.limit)}`],
    ...Object.entries(o.certificates ?? {}).map(([role, ends]) => [`Certificate, ${role}`, html`<${Ago} until=${ends} />`]),
  ]} />
          <${Action} action="drain" label="Drain" danger path="/drain" question="End this process? Its clients go to other replicas." />
          <p class="jump"><a href="/metrics">Metrics</a> <a href="/readyz">Ready</a> <a href="/origins">Origins</a> <a href="/groups">Groups</a>${page.profiles && html` <a href=${page.profiles}>Profiles</a>`}</p>
        </section>
        <${Snapshot} s=${o.snapshot} />
      </div>`}
      <${Load} path="/config" text every=${10000}>${(text) => html`<h3>In force, without secrets</h3><${Code} text=${text} cls="yaml" />`}<//>
    <//>`;
  }
}

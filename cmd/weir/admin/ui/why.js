// Why a client has what it has: the answer of /explain, which walks its subscription as weir does.
import { html, Component, Ago, query, isTime } from './lib.js';
import { Load } from './fetch.js';
import { Badge, Peer } from './parts.js';
import { GroupLink } from './map.js';

const states = { current: 'good', waiting: 'warn', rejected: 'bad', absent: 'warn', denied: 'bad', not_subscribed: 'dim', not_asked: 'dim', unknown: 'dim' };

const Explained = ({ s }) => html`<article class="explain" data-explain=${s.state}>
  <p class="verdict">${s.type && html`<b>${s.type}</b> `}<${Badge} state=${states[s.state]}>${s.state?.replaceAll('_', ' ')}<//> ${s.headline}</p>
  <p class="dim">Stream ${s.stream} from <${Peer} at=${s.peer} />, ${s.dialect}${s.group && html`; group <${GroupLink} origin=${s.group.origin} group=${s.group.key} /> of ${s.group.origin}${s.group.why?.length ? `, by ${s.group.why.join(', ')}` : ''}`}</p>
  ${s.waits?.map((w) => html`<p key=${w.reason} class="note is-warn"><b>${w.reason.replaceAll('_', ' ')}</b> <${Ago} at=${w.since} suffix=${false} />${isTime(w.until) && html`, <${Ago} until=${w.until} /> more`}: ${w.text}</p>`)}
  <ol class="steps">${(s.steps ?? []).map((x, i) => html`<li key=${i}><b>${x.step?.replaceAll('_', ' ')}</b> ${x.text} ${isTime(x.at) && html`<span class="dim"><${Ago} at=${x.at} /></span>`}</li>`)}</ol>
</article>`;

export class Why extends Component {
  constructor(props) {
    super(props);
    this.state = { type: props.first || '', name: '' };
  }
  render({ node, types }, { type, name }) {
    return html`<section class="panel">
      <h3>Why</h3>
      <form class="filter" aria-label="Why" onSubmit=${(e) => e.preventDefault()}>
        <label>Type<select name="why-type" onChange=${(e) => this.setState({ type: e.target.value })}><option value="">every type</option>${types.map((t) => html`<option key=${t} value=${t} selected=${t === type}>${t}</option>`)}</select></label>
        <label>Resource<input name="why-name" placeholder="the whole type" disabled=${!type} value=${name} onChange=${(e) => this.setState({ name: e.target.value.trim() })} /></label>
      </form>
      <${Load} path=${`/explain${query({ node, type, name: type && name })}`} every=${3000} missing="This weir does not explain yet: what its streams wait for is above.">${(d) => html`
        ${(d.streams ?? []).map((s) => html`<${Explained} key=${`${s.stream} ${s.type} ${s.parameters} ${s.group?.key}`} s=${s} />`)}`}<//>
    </section>`;
  }
}

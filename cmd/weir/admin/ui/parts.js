// Parts of views.
import { html, Component, page } from './lib.js';
import { post } from './fetch.js';
export { Table } from './table.js';

// View is the frame of a view: its title, its JSON and its line for a terminal.
export function View({ name, title, sub, json, children, back }) {
  return html`<main id="view" data-view=${name} tabindex="-1">
    <div class="view-head">
      <div>
        ${back && html`<a class="back" href=${back.href}>${back.text}</a>`}
        <h2>${title}</h2>
        ${sub && html`<p class="sub">${sub}</p>`}
      </div>
      ${json && html`<${Source} path=${json} />`}
    </div>
    ${children}
  </main>`;
}

// curl is the line that gets a path in a terminal.
export function curl(path) {
  const token = page.signedIn ? ' -H "Authorization: Bearer $TOKEN"' : '';
  return `curl -s${token} '${location.origin}${path.replaceAll("'", '%27')}'`;
}

// Source links to the JSON of a view, and has its curl line.
function Source({ path }) {
  return html`<div class="source">
    <a class="json" href=${path} target="_blank" rel="noopener">JSON</a>
    <code class="curl" title=${curl(path)}>${curl(path)}</code>
    <${Copy} text=${curl(path)} />
  </div>`;
}

export class Copy extends Component {
  constructor(props) {
    super(props);
    this.state = { said: '' };
  }
  async copy() {
    let said = 'Copied';
    try {
      await navigator.clipboard.writeText(this.props.text);
    } catch {
      said = 'Not permitted';
    }
    this.setState({ said });
    setTimeout(() => this.setState({ said: '' }), 1500);
  }
  render(_, { said }) {
    return html`<button type="button" class="quiet copy" onClick=${() => this.copy()} aria-live="polite">${said || 'Copy'}</button>`;
  }
}

// Peer is an address, which does not wrap in its port.
export const Peer = ({ at }) => html`<span class="peer nowrap dim num">${at}</span>`;

// Badge is a word with the colour of a state.
export const Badge = ({ state, children }) => html`<span class="badge is-${state || 'dim'}">${children}</span>`;

// Facts are names with values; those without a value are left out.
export function Facts({ of }) {
  return html`<dl class="facts">${of.filter(([, v]) => v !== undefined && v !== null && v !== '' && v !== false).map(([k, v]) => html`
    <div key=${k}><dt>${k}</dt><dd>${v}</dd></div>`)}</dl>`;
}

// Action is a button that does something: it asks once more, and shows what came of it.
export class Action extends Component {
  constructor(props) {
    super(props);
    this.state = { asked: false, busy: false, said: '', failed: false };
  }
  async submit(event) {
    event.preventDefault();
    if (!this.state.asked) {
      this.setState({ asked: true, said: '' });
      return;
    }
    this.setState({ busy: true });
    try {
      this.setState({ said: await post(this.props.path), failed: false });
    } catch (error) {
      this.setState({ said: error.message, failed: true });
    }
    this.setState({ busy: false, asked: false });
  }
  render({ action, label, question, danger }, { asked, busy, said, failed }) {
    return html`<form class="action" data-action=${action} onSubmit=${(e) => this.submit(e)}>
      ${asked && html`<span class="question" role="alert">${question}</span>`}
      <button class=${asked || danger ? 'danger' : ''} disabled=${busy}>${asked ? `Yes, ${label.toLowerCase()}` : label}</button>
      ${asked && html`<button type="button" class="quiet" onClick=${() => this.setState({ asked: false })}>Cancel</button>`}
      ${said && html`<span class="result ${failed ? 'is-bad' : 'is-good'}" role="status">${said}</span>`}
    </form>`;
  }
}

// Code is a text in fixed width, with a button that copies it.
export const Code = ({ text, cls = '' }) => html`<div class="code-box"><${Copy} text=${text} /><pre class="code ${cls}" tabindex="0">${text}</pre></div>`;

// pretty is JSON for reading.
export const pretty = (value) => JSON.stringify(value, null, 2);

// Requests to the JSON endpoints, and the component that shows their answers.
import { html, Component } from './lib.js';
import { live, watch } from './live.js';

// Problem is an answer that is none: its status, and the server's sentence.
class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function ask(path, options) {
  const answer = await fetch(path, { headers: { Accept: 'application/json' }, ...options });
  const text = await answer.text();
  if (answer.status === 401) throw new Problem(401, 'The session has ended: load the page again to sign in.');
  if (!answer.ok) throw new Problem(answer.status, text.trim() || answer.statusText);
  return text;
}

export const getText = (path, options) => ask(path, options);
export const getJSON = async (path, options) => JSON.parse(await ask(path, options));
export const post = async (path) => (await ask(path, { method: 'POST' })).trim();

// Load gets a path, and again with each overview if it is `fresh`, or after so many milliseconds.
// It shows what it has until there is something newer, so that nothing jumps. Its child is a
// function of the answer.
export class Load extends Component {
  constructor(props) {
    super(props);
    this.state = { data: null, error: null, path: '' };
  }
  componentDidMount() {
    this.get();
    this.stop = watch(() => this.due() && this.get());
  }
  componentDidUpdate(before) {
    if (before.path !== this.props.path) this.get();
  }
  componentWillUnmount() {
    this.stop();
    this.abort?.abort();
    clearTimeout(this.timer);
  }
  due() {
    const every = this.props.every ?? 2000;
    return live.open && every > 0 && !this.busy && Date.now() - (this.at || 0) >= every && !document.hidden;
  }
  async get() {
    const { path, text } = this.props;
    this.abort?.abort();
    const abort = new AbortController();
    this.abort = abort;
    this.busy = true;
    this.at = Date.now();
    try {
      const data = await (text ? getText : getJSON)(path, { signal: abort.signal });
      if (this.abort === abort) this.setState({ data, error: null, path });
    } catch (error) {
      if (this.abort === abort && error.name !== 'AbortError') this.setState({ error, path });
    }
    if (this.abort === abort) {
      this.busy = false;
      // Without events from the stream, time alone tells when it is due.
      clearTimeout(this.timer);
      const every = this.props.every ?? 2000;
      if (every > 0) this.timer = setTimeout(() => this.due() && this.get(), every + 50);
    }
  }
  render({ children, missing, path }, { data, error, path: of }) {
    const child = Array.isArray(children) ? children[0] : children;
    if (error && of === path && (error.status === 404 || !data)) {
      return html`<p class="note ${error.status === 404 ? '' : 'is-bad'}">${error.status === 404 && missing ? missing : error.message}</p>`;
    }
    if (!data) return html`<p class="note dim" aria-busy="true">Loading</p>`;
    return html`<div class=${of !== path ? 'stack loading' : 'stack'}>
      ${error && html`<p class="note is-bad">Not up to date: ${error.message}</p>`}
      ${child(data, () => this.get())}
    </div>`;
  }
}

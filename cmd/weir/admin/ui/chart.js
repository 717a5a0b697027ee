// Charts by uPlot, which is loaded when the first is shown.
import { html, Component } from './lib.js';

let library = null;
const load = () => {
  library ??= import('./vendor/uplot.js').then((m) => m.default);
  return library;
};

// colour is a colour of the style sheet, so that charts are as dark or light as the page.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const height = 180;
const dark = matchMedia('(prefers-color-scheme: dark)');

// Chart is one chart. Lines are [name, colour, values]; format makes a value a text.
export class Chart extends Component {
  componentDidMount() {
    this.draw = () => this.make();
    dark.addEventListener('change', this.draw);
    this.size = new ResizeObserver(() => this.plot?.setSize({ width: this.box.clientWidth, height }));
    this.size.observe(this.box);
    this.make();
  }
  componentWillUnmount() {
    this.gone = true;
    dark.removeEventListener('change', this.draw);
    this.size.disconnect();
    this.plot?.destroy();
  }
  componentDidUpdate(before) {
    const names = (lines) => lines.map(([name]) => name).join();
    if (this.plot && names(before.lines) === names(this.props.lines)) this.plot.setData(this.data());
    else this.make();
  }
  data() {
    return [this.props.at, ...this.props.lines.map(([, , values]) => values)];
  }
  async make() {
    const UPlot = await load();
    if (this.gone) return;
    this.plot?.destroy();
    const { lines, bars, format = (v) => String(Math.round(v * 100) / 100), max } = this.props;
    const axis = { stroke: colour('dim'), grid: { stroke: colour('line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    this.plot = new UPlot({
      width: this.box.clientWidth,
      height,
      padding: [8, 8, 0, 0],
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      legend: { live: true },
      scales: { y: { range: (_, low, high) => [0, max ?? Math.max(high * 1.1, 1)] } },
      axes: [axis, { ...axis, size: 56, values: (_, all) => all.map((v) => format(v)) }],
      series: [{ value: (_, v) => (v ? new Date(v * 1000).toLocaleTimeString(undefined, { hour12: false }) : '') },
        ...lines.map(([label, name]) => ({
          label,
          stroke: colour(name),
          width: 1.5,
          fill: lines.length === 1 ? `${colour(name)}22` : undefined,
          paths: bars ? UPlot.paths.bars({ size: [0.7, 24] }) : UPlot.paths.linear(),
          points: { show: false },
          spanGaps: false,
          value: (_, v) => (v === null || v === undefined ? '' : format(v)),
        }))],
    }, this.data(), this.box);
  }
  render({ title }) {
    return html`<figure class="chart"><figcaption>${title}</figcaption><div ref=${(e) => { this.box = e ?? this.box; }} class="plot"></div></figure>`;
  }
}

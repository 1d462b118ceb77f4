/* Two things to move by hand. A widget comes with a still, drawn when the book was built; this script puts controls and a
   drawing in its place. Numbers are computed as calibkit computes them. */
(() => {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const SIZE = { width: 360, height: 270, left: 46, right: 10, top: 10, bottom: 40 };

  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const make = (parent, tag, attributes, text) => {
    const element = document.createElementNS(parent.namespaceURI, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };

  /* An empty drawing with axes from 0 to `ends`; gives the two scales. */
  const axes = (svg, ends, labels) => {
    svg.replaceChildren();
    const { width, height, left, right, top, bottom } = SIZE;
    const x = (v) => left + (v / ends[0]) * (width - left - right);
    const y = (v) => height - bottom - (v / ends[1]) * (height - top - bottom);
    for (const [end, axis] of ends.map((end, i) => [end, "xy"[i]])) {
      const step = [0.2, 0.5, 1, 2, 5].find((size) => end / size <= 6);
      for (let v = 0; v <= end + 1e-9; v += step) {
        const at = axis === "x" ? { x: x(v), y: y(0) + 14, "text-anchor": "middle" } : { x: left - 6, y: y(v) + 4, "text-anchor": "end" };
        make(svg, "text", at, String(Math.round(10 * v) / 10));
      }
    }
    make(svg, "path", { class: "axis", d: `M${x(0)},${top}V${y(0)}H${x(ends[0])}` });
    make(svg, "text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, labels[0]);
    make(svg, "text", { transform: `translate(12,${(height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, labels[1]);
    return [x, y];
  };

  /* Softmax of logits / T, and what follows from it: NLL, accuracy, and accuracy and confidence by bin (lower, upper]. */
  const calibration = ({ logits, labels, classes }, temperature, count) => {
    const bins = Array.from({ length: count }, () => ({ n: 0, right: 0, confidence: 0 }));
    let nll = 0, right = 0, confidence = 0;
    labels.forEach((label, i) => {
      const row = Array.from(logits.subarray(i * classes, (i + 1) * classes), (value) => value / 100 / temperature);
      const largest = Math.max(...row);
      const sum = row.reduce((total, value) => total + Math.exp(value - largest), 0);
      const hit = row.indexOf(largest) === label ? 1 : 0;
      const bin = bins[Math.min(count - 1, Math.max(0, Math.ceil(count / sum) - 1))];
      nll += Math.log(sum) + largest - row[label];
      right += hit;
      confidence += 1 / sum;
      bin.n += 1;
      bin.right += hit;
      bin.confidence += 1 / sum;
    });
    const n = labels.length;
    const ece = bins.reduce((total, bin) => total + Math.abs(bin.right - bin.confidence), 0) / n;
    return { bins, ece, nll: nll / n, accuracy: right / n, confidence: confidence / n };
  };

  const temperature = (data) => {
    const set = { ...data, logits: new Int16Array(bytes(data.logits).buffer), labels: [...bytes(data.labels)] };
    return ({ temperature: t, bins: count }, svg) => {
      const { bins, ece, nll, accuracy, confidence } = calibration(set, t, count);
      const [x, y] = axes(svg, [1, 1], ["confidence", "accuracy"]);
      bins.forEach((bin, i) => {
        if (!bin.n) return;
        const [from, to] = [x(i / count), x((i + 1) / count)];
        const [said, true_] = [bin.confidence / bin.n, bin.right / bin.n];
        const share = 0.25 + 0.75 * Math.sqrt(bin.n / set.labels.length);
        make(svg, "rect", { class: "bar", x: from, width: to - from, y: y(true_), height: y(0) - y(true_), "fill-opacity": share });
        make(svg, "path", { class: "gap", d: `M${x(said)},${y(true_)}V${y(said)}` });
        make(svg, "circle", { class: "point", cx: x(said), cy: y(true_), r: 3 });
      });
      make(svg, "path", { class: "ideal", d: `M${x(0)},${y(0)}L${x(1)},${y(1)}` });
      const percent = (value) => `${(100 * value).toFixed(2)}%`;
      const text = `ECE ${percent(ece)}, NLL ${nll.toFixed(4)} nats; accuracy ${percent(accuracy)}, mean confidence ${percent(confidence)}`;
      return { text, ece, nll };
    };
  };

  const margin = () => ({ margin: m, weight, classes: k }, svg) => {
    const entropy = (d) => Math.log(1 + (k - 1) * Math.exp(-d));
    const penalty = (d) => ((weight * (k - 1)) / k) * Math.max(0, d - m);
    const inner = Math.log(k / weight - k + 1);
    const distance = Math.max(m, inner), confidence = 1 / (1 + (k - 1) * Math.exp(-distance));
    const grid = Array.from({ length: 201 }, (_, i) => (16 * i) / 200);
    const total = (d) => entropy(d) + penalty(d);
    const [x, y] = axes(svg, [16, Math.ceil(Math.max(total(0), total(16)))], ["distance d to every other class", "loss"]);
    const curve = (of) => "M" + grid.map((d) => `${x(d).toFixed(2)},${y(of(d)).toFixed(2)}`).join("L");
    make(svg, "path", { class: "total", d: curve(total) });
    make(svg, "path", { class: "part", d: curve(entropy) });
    make(svg, "path", { class: "part second", d: curve(penalty) });
    [["total", "loss"], ["part", "cross-entropy"], ["part second", "penalty"]].forEach(([css, name], i) => {
      make(svg, "path", { class: css, d: `M250,${18 + 14 * i}h24` });
      make(svg, "text", { x: 280, y: 22 + 14 * i }, name);
    });
    make(svg, "path", { class: "ideal", d: `M${x(distance)},${y(0)}V${y(total(distance))}` });
    make(svg, "circle", { class: "point", cx: x(distance), cy: y(total(distance)), r: 4 });
    const decides = m >= inner ? "the margin decides" : "the weight decides";
    const text = `rests at d* = ${distance.toFixed(3)} with confidence ${(100 * confidence).toFixed(2)}%: ${decides}`;
    return { text, distance, confidence };
  };

  const start = (widget) => {
    const { kind, controls, title, data } = JSON.parse(widget.querySelector("script").textContent);
    const draw = { temperature, margin }[kind](data), values = {};
    const live = make(widget, "div", { class: "live", role: "group", "aria-label": title });
    const form = make(live, "div", { class: "controls" });
    const svg = live.appendChild(document.createElementNS(SVG, "svg"));
    svg.setAttribute("viewBox", `0 0 ${SIZE.width} ${SIZE.height}`);
    svg.setAttribute("role", "img");
    const said = make(live, "p", { class: "said", "aria-live": "polite" });
    const show = () => {
      const { text, ...numbers } = draw(values, svg);
      said.textContent = text;
      svg.setAttribute("aria-label", `${title}: ${text}`);
      Object.assign(said.dataset, numbers);
    };
    for (const { name, label, value, ...range } of controls) {
      const line = make(form, "label", {}, `${label} `);
      const input = make(line, "input", { type: "range", name, ...range, value });
      const shown = make(line, "output", { "aria-live": "off" });
      const read = () => {
        values[name] = Number(input.value);
        shown.textContent = input.value;
      };
      input.addEventListener("input", () => { read(); show(); });
      read();
    }
    show();
    widget.classList.add("moving");
  };

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("div.widget").forEach(start));
})();

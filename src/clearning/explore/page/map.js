// One map: a heat map on a canvas, and over it, in the map's own units, walls, paths, start and goal.

import { svg } from "./svg.js";

const MARGIN = 0.045; // of the longer side: room for a car or a goal at the edge

export class MapView {
  // `on` is told of what a person does: start(place), goal(place), heading(degrees), pointer(place or null).
  constructor(node, world, lattice, on, label) {
    Object.assign(this, { world, lattice, on });
    this.canvas = node.querySelector("canvas");
    this.svg = node.querySelector("svg");
    this.svg.setAttribute("aria-label", label);
    const [left, bottom, right, top] = world.extent;
    this.size = Math.max(right - left, top - bottom);
    const margin = MARGIN * this.size;
    this.box = { x: left - margin, y: bottom - margin, width: right - left + 2 * margin, height: top - bottom + 2 * margin };
    const { x, y, width, height } = this.box;
    this.svg.setAttribute("viewBox", `${x} ${-(y + height)} ${width} ${height}`);
    node.style.setProperty("--ratio", width / height);
    this.unit = this.size / 26; // of markers, where the map has no unit of its own for them
    this.placeCanvas();
    this.svg.append(this.drawWorld());
    this.listen();
  }

  placeCanvas() {
    const { low, step, columns, rows } = this.lattice;
    const { x, y, width, height } = this.box;
    const [left, top] = [low[0] - step / 2, low[1] + (rows - 0.5) * step];
    [this.canvas.width, this.canvas.height] = [columns, rows];
    Object.assign(this.canvas.style, {
      left: `${(100 * (left - x)) / width}%`,
      top: `${(100 * (y + height - top)) / height}%`,
      width: `${(100 * columns * step) / width}%`,
      height: `${(100 * rows * step) / height}%`,
    });
    // Outermost points lie on the frame: the outer half of their colour would reach over it.
    if (!this.world.cells) this.canvas.style.clipPath = `inset(${50 / rows}% ${50 / columns}%)`;
    this.painted = this.world.cells ? this.lattice.number : this.lattice.bordered();
    this.context = this.canvas.getContext("2d");
    this.image = this.context.createImageData(columns, rows);
  }

  drawWorld() {
    const { world, lattice } = this;
    const [left, bottom, right, top] = world.extent;
    const frame = { x: left, y: bottom, width: right - left, height: top - bottom };
    const ground = svg("g");
    if (world.cells) {
      for (let i = 0; i < lattice.kind.length; i++) {
        const [x, y] = lattice.at(Math.floor(i / lattice.rows), i % lattice.rows);
        if (lattice.kind[i] === "0") ground.append(svg("rect", { class: "wall", x: x - 0.51, y: y - 0.51, width: 1.02, height: 1.02 }));
        if (lattice.kind[i] === "2") ground.append(hatched(x, y));
      }
    }
    for (const [x, y, farX, farY] of world.walls) ground.append(svg("rect", { class: "wall", x, y, width: farX - x, height: farY - y }));
    if (world.cat) ground.append(drawCat(world.cat));
    ground.append(svg("rect", { class: "frame", ...frame, "stroke-width": this.size / 150 }));
    this.outline = svg("g", { "aria-hidden": "true" });
    this.ways = svg("g", { "aria-hidden": "true" });
    this.goal = this.movable("goal");
    this.goal.append(...this.goalShape());
    this.start = this.movable("start");
    this.start.append(...this.startShape());
    return svg("g", { transform: "scale(1 -1)" }, ground, this.outline, this.ways, this.goal, this.start);
  }

  movable(kind) {
    const ring = { cx: 0, cy: 0, r: this.world.cells ? 0.62 : 1.35 * this.unit };
    return svg("g", { class: kind, tabindex: 0, role: "button", "aria-roledescription": "movable point" },
      svg("circle", { ...ring, r: 1.3 * ring.r, class: "grip" }),
      svg("circle", { ...ring, class: "focus" }), svg("circle", { ...ring, class: "focus inner" }));
  }

  goalShape() {
    const { goal_shape: shape, goal_radius: radius, cells } = this.world;
    if (shape === "square") {
      const side = { x: -radius, y: -radius, width: 2 * radius, height: 2 * radius };
      return [svg("rect", { ...side, class: "area" }), svg("rect", { ...side, class: "edge" })];
    }
    if (shape === "disc") return [svg("circle", { r: radius, class: "area" }), svg("circle", { r: radius, class: "edge" })];
    const reach = cells ? Math.max(0.46, 0.032 * this.size) : this.unit;
    const corners = Array.from({ length: 10 }, (_, i) => {
      const [angle, far] = [Math.PI / 2 + (i * Math.PI) / 5, i % 2 ? 0.45 * reach : reach];
      return `${far * Math.cos(angle)},${far * Math.sin(angle)}`;
    });
    return [svg("polygon", { points: corners.join(" "), class: "shape" })];
  }

  startShape() {
    if (this.world.turn) {
      this.knob = svg("circle", { class: "knob", cx: 1.15, cy: 0, r: 0.2 });
      this.car = svg("g", {}, svg("path", { d: "M-.6-.34H.22L.68 0 .22.34H-.6Z" }), this.knob);
      return [this.car];
    }
    return [svg("circle", { class: "body", r: this.world.cells ? Math.max(0.3, 0.02 * this.size) : 0.6 * this.unit })];
  }

  // Bytes (one per goal) as colours; `colours` is a table of 256.
  drawHeat(bytes, colours) {
    const { columns, rows } = this.lattice;
    const pixels = this.image.data;
    for (let column = 0; column < columns; column++) {
      for (let row = 0; row < rows; row++) {
        const at = 4 * ((rows - 1 - row) * columns + column);
        const goal = this.painted[column * rows + row];
        if (goal < 0 || !bytes) {
          pixels[at + 3] = 0;
          continue;
        }
        [pixels[at], pixels[at + 1], pixels[at + 2]] = colours[bytes[goal]];
        pixels[at + 3] = 255;
      }
    }
    this.context.putImageData(this.image, 0, 0);
  }

  // The border of the points for which `inside(goal number)` holds.
  drawOutline(inside) {
    if (!inside) return this.outline.replaceChildren();
    const { columns, rows, number, step } = this.lattice;
    const free = (c, r) => c >= 0 && r >= 0 && c < columns && r < rows && number[c * rows + r] >= 0;
    const within = (c, r) => free(c, r) && inside(number[c * rows + r]);
    const beyond = (c, r) => free(c, r) && !within(c, r); // at walls and at the frame no line is needed
    const edges = [];
    for (let c = 0; c < columns; c++) {
      for (let r = 0; r < rows; r++) {
        if (!within(c, r)) continue;
        const [x, y] = this.lattice.at(c, r);
        const [left, low, right, high] = [x - step / 2, y - step / 2, x + step / 2, y + step / 2];
        if (beyond(c - 1, r)) edges.push(`M${left} ${low}V${high}`);
        if (beyond(c + 1, r)) edges.push(`M${right} ${low}V${high}`);
        if (beyond(c, r - 1)) edges.push(`M${left} ${low}H${right}`);
        if (beyond(c, r + 1)) edges.push(`M${left} ${high}H${right}`);
      }
    }
    const d = edges.join("");
    return this.outline.replaceChildren(svg("path", { class: "outline-halo", d }), svg("path", { class: "outline", d }));
  }

  drawPaths(paths) {
    const dot = 0.0055 * this.size;
    const groups = paths.map(({ points, reached, dead }) => {
      const d = points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join("");
      const group = svg("g", { class: reached ? "reached" : "missed" }, svg("path", { class: "halo", d }), svg("path", { class: "way", d }));
      if (paths.length === 1) for (const [x, y] of points.slice(1)) group.append(svg("circle", { class: "step", cx: x, cy: y, r: dot }));
      if (dead) {
        const [[x, y], far] = [points.at(-1), 0.013 * this.size];
        const cross = `M${x - far} ${y - far}L${x + far} ${y + far}M${x - far} ${y + far}L${x + far} ${y - far}`;
        group.append(svg("path", { class: "cross halo", d: cross }), svg("path", { class: "cross", d: cross }));
      }
      return group;
    });
    this.ways.setAttribute("class", paths.length > 1 ? "many" : "one");
    this.ways.replaceChildren(...groups);
  }

  place(start, goal) {
    const [x, y, heading] = start;
    this.start.setAttribute("transform", `translate(${x} ${y})`);
    this.goal.setAttribute("transform", `translate(${goal[0]} ${goal[1]})`);
    if (this.car) this.car.setAttribute("transform", `rotate(${heading})`);
    const turned = this.car ? `, heading ${heading} degrees` : "";
    this.start.setAttribute("aria-label", `Start at ${told(x)}, ${told(y)}${turned}; arrow keys move it${this.car ? ", comma and full stop turn it" : ""}`);
    this.goal.setAttribute("aria-label", `Goal at ${told(goal[0])}, ${told(goal[1])}; arrow keys move it`);
  }

  listen() {
    let held = null;
    const where = (event) => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      return [point.x, -point.y];
    };
    const drag = (event) => {
      const place = where(event);
      if (held !== "heading") return this.on[held](place);
      const [x, y] = this.current.start;
      return this.on.heading((180 * Math.atan2(place[1] - y, place[0] - x)) / Math.PI);
    };
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      held = event.target === this.knob ? "heading" : this.start.contains(event.target) ? "start" : "goal";
      (held === "goal" ? this.goal : this.start).focus({ focusVisible: false });
      this.svg.setPointerCapture(event.pointerId);
      if (held === "goal") drag(event);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (held) drag(event);
      else this.on.pointer(where(event));
    });
    for (const end of ["pointerup", "pointercancel"]) this.svg.addEventListener(end, () => { held = null; });
    this.svg.addEventListener("pointerleave", () => this.on.pointer(null));
    for (const kind of ["start", "goal"]) this[kind].addEventListener("keydown", (event) => this.key(event, kind));
  }

  key(event, kind) {
    const arrows = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
    const turns = { ",": 1, ".": -1 };
    if (event.key in arrows) {
      let place = this.current[kind];
      for (let i = 0; i < (event.shiftKey ? 4 : 1); i++) place = this.lattice.move(place, arrows[event.key], kind);
      this.on[kind](place);
    } else if (kind === "start" && this.car && event.key in turns) {
      this.on.heading(this.current.start[2] + turns[event.key] * this.world.turn);
    } else {
      return;
    }
    event.preventDefault();
  }
}

export function told(number) {
  return String(Math.round(100 * number) / 100);
}

function hatched(x, y) {
  const lines = [-0.5, 0, 0.5].map((sum) => {
    const [low, high] = [Math.max(-0.5, sum - 0.5), Math.min(0.5, sum + 0.5)];
    return `M${x + low} ${y + sum - low}L${x + high} ${y + sum - high}`;
  });
  const d = lines.join(""); // dark under light shows on any colour
  return svg("g", {}, svg("path", { class: "hatch under", d, "stroke-width": 0.1 }), svg("path", { class: "hatch", d, "stroke-width": 0.05 }));
}

function drawCat({ at: [x, y], rings }) {
  const group = svg("g");
  for (const [radius, percent] of rings) {
    const ring = svg("circle", { class: "ring", cx: x, cy: y, r: radius });
    ring.append(svg("title"));
    ring.firstChild.textContent = `${percent} % risk of being caught in a step that ends here`;
    group.append(ring);
  }
  const outline = `M${x - 0.34} ${y + 0.1}l.04 .46 .2-.21q.1 .02 .2 0l.2 .21 .04-.46a.36 .36 0 1 0-.68 0Z`;
  group.append(svg("path", { class: "cat", d: outline }));
  return group;
}

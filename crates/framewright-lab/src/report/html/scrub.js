"use strict";
// Moves each map through time. Without it the printed moments stay where they are.
for (const map of document.querySelectorAll("figure.map")) {
  const COLUMNS = 64, CELL = 8, GAP = 1;
  const films = JSON.parse(map.querySelector("script[type='application/json']").textContent);
  const scrub = map.querySelector(".scrub"), live = map.querySelector(".live");
  const slider = scrub.querySelector("input"), play = scrub.querySelector("button"), output = scrub.querySelector("output");
  const last = Math.max(0, ...films.map(film => film.ms.length - 1));
  if (last < 1) continue;
  const LETTERS = "abcdefgh";
  // The states of every moment: a letter is a state, a point what stayed, a number behind it how many.
  for (const film of films) {
    let cells = [];
    film.states = film.cells.map(text => {
      const next = [];
      for (const [, mark, count] of text.matchAll(/([a-h.])(\d*)/g)) {
        for (let n = Number(count || 1); n > 0; n--) next.push(mark === "." ? cells[next.length] : LETTERS.indexOf(mark));
      }
      return cells = next;
    });
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    const canvas = document.createElement("canvas");
    canvas.width = COLUMNS * CELL;
    canvas.height = Math.ceil(cells.length / COLUMNS) * CELL;
    canvas.setAttribute("role", "img");
    figure.append(canvas, caption);
    live.append(figure);
    Object.assign(film, { canvas, caption });
    canvas.addEventListener("pointermove", event => {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor((event.clientX - box.left) / box.width * COLUMNS);
      const row = Math.floor((event.clientY - box.top) / box.height * (canvas.height / CELL));
      const state = film.states[film.at][row * COLUMNS + column];
      canvas.title = state === undefined ? "" : `block ${row * COLUMNS + column}: ${names[state]}`;
    });
  }
  const names = [...map.querySelectorAll(".legend li")].map(item => item.textContent.trim());
  function draw() {
    const style = getComputedStyle(document.documentElement);
    const colours = names.map((_, n) => style.getPropertyValue("--c" + n));
    const where = Number(slider.value) / last;
    let ms = 0;
    for (const film of films) {
      film.at = Math.round(where * (film.ms.length - 1));
      ms = Math.max(ms, film.ms[film.at]);
      const states = film.states[film.at], context = film.canvas.getContext("2d");
      context.clearRect(0, 0, film.canvas.width, film.canvas.height);
      const counts = names.map(() => 0);
      states.forEach((state, n) => {
        counts[state]++;
        context.fillStyle = colours[state];
        context.fillRect(n % COLUMNS * CELL, Math.floor(n / COLUMNS) * CELL, CELL - GAP, CELL - GAP);
      });
      film.caption.textContent = `${film.name}: ${film.free[film.at]} MiB free; squares: ${counts[1]} free, ` +
        `${counts[2] + counts[3]} movable, ${counts[4] + counts[5]} not movable, ${counts[6] + counts[7]} mixed`;
      film.canvas.setAttribute("aria-label", film.caption.textContent);
    }
    output.textContent = `${(ms / 1000).toFixed(2)} s`;
    slider.setAttribute("aria-valuetext", output.textContent);
  }
  let timer = 0;
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) >= last) slider.value = 0;
    play.textContent = "Stop";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      draw();
      if (Number(slider.value) >= last) stop();
    }, 80);
  });
  slider.max = last;
  slider.value = last;
  slider.addEventListener("input", () => { stop(); draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  map.querySelector(".printed").hidden = true;
  scrub.hidden = live.hidden = false;
  draw();
}

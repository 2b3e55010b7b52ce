"use strict";
// Moves each map through time. Without it the printed moments stay where they are.
for (const map of document.querySelectorAll("figure.map")) {
  const COLUMNS = 64;
  const films = JSON.parse(map.querySelector("script[type='application/json']").textContent);
  const scrub = map.querySelector(".scrub"), live = map.querySelector(".live");
  const slider = scrub.querySelector("input"), play = scrub.querySelector("button"), output = scrub.querySelector("output");
  const last = Math.max(0, ...films.map(film => film.ms.length - 1));
  if (last < 1) continue;
  const LETTERS = "abcdefgh";
  const names = [...map.querySelectorAll(".legend li")].map(item => item.textContent.trim());
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
    const figure = document.createElement("figure"), rows = Math.ceil(cells.length / COLUMNS);
    const paths = names.map((_, n) => `<path class="c${n}"></path>`).join("");
    figure.innerHTML = `<svg role="img" viewBox="0 0 ${COLUMNS} ${rows}">${paths}</svg><figcaption></figcaption>`;
    live.append(figure);
    const [svg, caption] = figure.children;
    Object.assign(film, { svg, caption });
    svg.addEventListener("pointermove", event => {
      const box = svg.getBoundingClientRect();
      const column = Math.floor((event.clientX - box.left) / box.width * COLUMNS);
      const row = Math.floor((event.clientY - box.top) / box.height * rows);
      const state = film.states[film.at][row * COLUMNS + column];
      figure.title = state === undefined ? "" : `block ${row * COLUMNS + column}: ${names[state]}`;
    });
  }
  function draw() {
    const where = Number(slider.value) / last;
    let ms = 0;
    for (const film of films) {
      film.at = Math.round(where * (film.ms.length - 1));
      ms = Math.max(ms, film.ms[film.at]);
      const states = film.states[film.at], counts = names.map(() => 0), lines = names.map(() => "");
      // A line for each run of a state within a row, as in the printed pictures.
      for (let n = 0; n < states.length;) {
        const state = states[n], start = n, end = Math.min(states.length, start - start % COLUMNS + COLUMNS);
        while (n < end && states[n] === state) n++;
        lines[state] += `M${start % COLUMNS} ${Math.floor(start / COLUMNS)}.5h${n - start}`;
        counts[state] += n - start;
      }
      lines.forEach((line, n) => film.svg.children[n].setAttribute("d", line));
      film.caption.textContent = `${film.name}: ${film.free[film.at]} MiB free; squares: ${counts[1]} free, ` +
        `${counts[2] + counts[3]} movable, ${counts[4] + counts[5]} not movable, ${counts[6] + counts[7]} mixed`;
      film.svg.setAttribute("aria-label", film.caption.textContent);
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
  map.querySelector(".printed").hidden = true;
  scrub.hidden = live.hidden = false;
  draw();
}

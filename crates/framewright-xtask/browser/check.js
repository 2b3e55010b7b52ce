// Looks at the page that it is part of, in the width and the colours that it is shown with, and tells the page around it
// what is wrong. Where the accessibility checker axe is there, its findings are among that.
(async () => {
  const found = new Set();
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) found.add(`the page is ${root.scrollWidth} pixels wide`);

  // Contrast as in WCAG 2. The page's own colours come from its style, which maps each colour of a plot to them.
  const light = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map((part) => Number(part) / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, nth) => sum + part * [0.2126, 0.7152, 0.0722][nth], 0);
  const paper = getComputedStyle(root).backgroundColor;
  const stands = (what, colour, least, ground = paper) => {
    if (colour === 'none') return;
    const [more, less] = [light(colour), light(ground)].sort((a, b) => b - a);
    const contrast = (more + 0.05) / (less + 0.05);
    if (contrast < least) found.add(`${what}: ${colour} on ${ground} has a contrast of ${contrast.toFixed(1)}, expected ${least}`);
  };
  const [texts, lines] = ['svg text', '.plot svg polyline'].map((of) => document.querySelectorAll(of));
  for (const text of texts) stands('text in a picture', getComputedStyle(text).fill, 4.5);
  for (const line of lines) {
    // The lines of the grid are to be faint.
    if (line.getAttribute('stroke') !== '#DDDDDD') stands('a line', getComputedStyle(line).stroke, 3);
  }

  // Verdicts first: a card before any table.
  const [card, table] = ['.card', 'table'].map((of) => document.querySelector(of));
  if (!card) found.add('there is no card');
  if (card && table && table.compareDocumentPosition(card) & Node.DOCUMENT_POSITION_FOLLOWING) found.add('a table stands before the first card');

  // On a screen the last column, which has the model's error, is to be seen without scrolling; on a phone what names a row
  // stays while its figures scroll.
  const edges = (part) => part.getBoundingClientRect();
  if (table && innerWidth >= 1400) {
    const [last, box] = [[...table.querySelectorAll('thead th')].at(-1), table.closest('.scroll')].map(edges);
    if (last.right > box.right + 1) found.add(`the last column of the first table ends at ${last.right}, its box at ${box.right}`);
  }
  let scrolled = 0;
  if (innerWidth <= 400) {
    for (const box of document.querySelectorAll('.scroll')) {
      box.scrollLeft = 500;
      if (box.scrollLeft === 0) continue;
      scrolled++;
      for (const name of ['thead th:first-child', 'th[scope=row]']) {
        const part = box.querySelector(name);
        // A table without rows has no names of them.
        if (!part) continue;
        const left = edges(part).left - edges(box).left;
        if (Math.abs(left) > 1) found.add(`${name} of ${box.ariaLabel} is at ${left} when its table is scrolled`);
        // What scrolls by is not to be seen through it.
        if (getComputedStyle(part).backgroundColor !== paper) found.add(`${name} has no ground`);
      }
      const names = box.querySelector('th[scope=row]');
      if (names && edges(names).width > box.clientWidth * 0.6) found.add(`names fill ${box.ariaLabel}`);
      box.scrollLeft = 0;
    }
    if (table && scrolled === 0) found.add('no table scrolls on a phone');
  }

  // Each state of a map is a pattern of the page, and what is drawn on its ground stands out from it.
  for (const part of document.querySelectorAll('.map .cell rect, .map .row path')) {
    const { fill, stroke } = getComputedStyle(part);
    const id = (part.localName === 'rect' ? fill : stroke).match(/^url\("#(cell-\d)"\)/)?.[1];
    if (!id || !document.getElementById(id)) found.add(`a square of class ${part.getAttribute('class')} has no pattern`);
  }
  for (const pattern of document.querySelectorAll('pattern')) {
    const [ground, mark] = [...pattern.children].map((part) => getComputedStyle(part).fill);
    if (mark) stands(`the mark of ${pattern.id}`, mark, 3, ground);
  }
  const maps = document.querySelectorAll('figure.map').length, patterns = document.querySelectorAll('pattern path').length;
  if (maps > 0 && patterns === 0) found.add('the map has no patterns');

  let axeSaid = 'no axe';
  if (typeof axe !== 'undefined') {
    const { violations } = await axe.run(document, { resultTypes: ['violations'] });
    for (const { id, help, nodes } of violations) found.add(`${id}: ${help}: ${nodes.length} times, first ${nodes[0].target}`);
    axeSaid = `axe ${axe.version}`;
  }
  const isDark = matchMedia('(prefers-color-scheme: dark)').matches;
  parent.postMessage(JSON.stringify({
    width: innerWidth, is_dark: isDark, texts: texts.length, lines: lines.length, axe: axeSaid, found: [...found],
  }), '*');
})();

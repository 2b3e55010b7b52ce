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
  const stands = (what, colour, least) => {
    if (colour === 'none') return;
    const [more, less] = [light(colour), light(paper)].sort((a, b) => b - a);
    const contrast = (more + 0.05) / (less + 0.05);
    if (contrast < least) found.add(`${what}: ${colour} on ${paper} has a contrast of ${contrast.toFixed(1)}, expected ${least}`);
  };
  const [texts, lines] = ['svg text', '.plot svg polyline'].map((of) => document.querySelectorAll(of));
  for (const text of texts) stands('text in a picture', getComputedStyle(text).fill, 4.5);
  for (const line of lines) {
    // The lines of the grid are to be faint.
    if (line.getAttribute('stroke') !== '#DDDDDD') stands('a line', getComputedStyle(line).stroke, 3);
  }

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

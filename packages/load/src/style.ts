/** The style sheet of the report. Colors keep their contrast in both modes, and are told apart by color-blind readers. */
export const STYLE = `
:root {
  --surface: #ffffff; --raised: #f5f7f9; --ink: #1b1f24; --muted: #59636e; --line: #dfe3e8;
  --good: #12703d; --bad: #b3261e;
  --s0: #0b63ce; --s1: #b4530a; --s2: #12805c; --s3: #8a3ffc; --s4: #9f1853;
}
@media (prefers-color-scheme: dark) {
  :root {
    --surface: #12161c; --raised: #1a2028; --ink: #eef1f5; --muted: #a3adb8; --line: #2c343e;
    --good: #5fd38d; --bad: #ff8a80;
    --s0: #5aa9ff; --s1: #f0a04b; --s2: #4fd1a5; --s3: #be95ff; --s4: #ff7eb6;
  }
}
body { margin: 0; background: var(--surface); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; }
main { max-width: 920px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 28px; margin: 0 0 8px; }
h2 { font-size: 18px; margin: 36px 0 4px; }
p { margin: 0 0 8px; }
.about, small { color: var(--muted); }
.verdict { font-size: 14px; font-weight: 600; border: 1.5px solid; border-radius: 999px;
  padding: 2px 12px; vertical-align: middle; }
.verdict.good, .card.good b { color: var(--good); }
.verdict.bad, .card.bad b { color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(5, 1fr); gap: 12px; margin: 20px 0 12px; }
.card { background: var(--raised); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px;
  display: flex; flex-direction: column; }
.card.bad { border-color: var(--bad); }
.card b { font-size: 26px; font-variant-numeric: tabular-nums; }
.cards.small { grid-template-columns: repeat(3, 1fr); }
.cards.small b { font-size: 20px; }
.findings { color: var(--bad); }
figure { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; margin: 8px 0; }
th, td { text-align: right; white-space: nowrap; padding: 5px 6px; border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
.u-legend th, .u-legend td { border: 0; }
@media (max-width: 640px) { .cards, .cards.small { grid-template-columns: 1fr; } }
`;

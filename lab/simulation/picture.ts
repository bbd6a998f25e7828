import { barChart } from '../bar-chart.ts';

/** What `npm run simulate` knows of one network. */
export interface SignOuts {
  network: string;
  /** By rule, in the order of the rules. */
  perThousand: readonly number[];
}

/** The rules and networks of the picture, each with its label. docs/rotation.md has all of them in a table. */
const SHOWN_RULES: Readonly<Record<string, string>> = {
  'ours, window 10': 'Latchkey',
  '30 s grace, same pair': '30 s grace',
  'strict one-time use': 'one-time use',
};
const SHOWN_NETWORKS: Readonly<Record<string, string>> = {
  '1% lost, 3 tabs': '1% of answers lost, 3 tabs',
  '5% lost, 3 tabs': '5% of answers lost, 3 tabs',
  '8 at once, 1 refresh in 10': 'pages that send 8 requests at once',
  'time-out 1 s, answers after 3 s': 'time-out of 1 s, answers after 3 s',
};

/** A simulated figure: whoever chooses another network gets another third digit. */
export function twoDigits(value: number): string {
  const decimals = value === 0 || value >= 10 ? 0 : value >= 1 ? 1 : 2;
  return (Math.round(value * 10 ** decimals) / 10 ** decimals).toFixed(decimals);
}

/** docs/images/sign-outs.svg. The figures of the table, rounded as there, are enough to draw it. */
export function signOutsPicture(rules: readonly string[], signOuts: readonly SignOuts[]): string {
  return barChart({
    title: 'Users signed out by a bad network',
    subtitle: 'wrongful sign-outs per 1,000 refreshes, simulated',
    about:
      'Wrongful sign-outs per 1,000 refreshes, by npm run simulate. docs/rotation.md has the figures in a table.',
    groups: signOuts
      .filter(({ network }) => network in SHOWN_NETWORKS)
      .map(({ network, perThousand }) => ({
        title: SHOWN_NETWORKS[network] ?? '',
        bars: Object.entries(SHOWN_RULES).map(([rule, label]) => {
          const text = twoDigits(perThousand[rules.indexOf(rule)] ?? NaN);
          return { label, value: Number(text), text, isOurs: label === 'Latchkey' };
        }),
      })),
  });
}

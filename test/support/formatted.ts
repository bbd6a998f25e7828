import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { format } from 'oxfmt';
import { ROOT } from './documents.ts';

type FormatOptions = NonNullable<Parameters<typeof format>[2]>;

interface Settings {
  singleQuote: boolean;
  printWidth: number;
  overrides: { files: string[]; options: FormatOptions }[];
}

/**
 * A text as `npm run format` would leave it in a file of this name.
 * @param name its ending decides: `page.md`, `costs.ts`, `figures.json`
 */
export async function formatted(name: string, text: string): Promise<string> {
  const { overrides, singleQuote, printWidth } = JSON.parse(
    readFileSync(join(ROOT, '.oxfmtrc.json'), 'utf8'),
  ) as Settings;
  const { options } = overrides.find(({ files }) => files.includes(`*.${name.split('.').at(-1)}`)) ?? {};
  const { code, errors } = await format(name, text, { singleQuote, printWidth, ...options });
  if (errors.length > 0) throw new Error(`${name} cannot be formatted: ${errors[0]?.message}`);
  return code;
}

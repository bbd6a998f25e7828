import { refuse, tooLong, type Parsed } from '../identifiers.ts';

/** As RFC 5646 recommends for tags of limited length (section 4.4.1). */
const LOCALE_LENGTH = 35;

/** Tags of a header that are looked at: browsers send a few, and a longer list is no one's languages. */
const MOST_TAGS = 20;

/** A language tag (BCP 47) in its canonical form, at most 35 characters. */
export function parseLocale(raw: string): Parsed {
  // Canonical forms may be longer than what was given: `sh` becomes `sr-Latn`.
  const value = raw.length > LOCALE_LENGTH ? raw : canonicalTag(raw);
  if (value === null)
    return refuse({ code: 'format', message: 'must be a language tag of BCP 47, such as en or pt-BR' });
  return value.length > LOCALE_LENGTH ? refuse(tooLong(LOCALE_LENGTH)) : { ok: true, value };
}

function canonicalTag(raw: string): string | null {
  try {
    return Intl.getCanonicalLocales(raw)[0] ?? null;
  } catch {
    return null;
  }
}

/** A language and its weight (RFC 9110, section 12.5.4). */
const WEIGHTED = /^([A-Za-z0-9-]+)(?:[ \t]*;[ \t]*[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?$/;

/**
 * The language that a client prefers, in its canonical form.
 * @param header `Accept-Language`. A `*`, which programs send that speak for nobody, names no language.
 * @returns null if it names none.
 */
export function preferredLocale(header: string | undefined): string | null {
  const weighted = (header ?? '').split(',', MOST_TAGS).flatMap((part) => {
    const [, tag, weight = '1'] = WEIGHTED.exec(part.trim()) ?? [];
    return tag === undefined || Number(weight) === 0 ? [] : [{ tag, weight: Number(weight) }];
  });
  for (const { tag } of weighted.sort((one, other) => other.weight - one.weight)) {
    const locale = parseLocale(tag);
    if (locale.ok) return locale.value;
  }
  return null;
}

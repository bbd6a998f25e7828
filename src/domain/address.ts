import { domainToASCII, domainToUnicode } from 'node:url';

// What an e-mail address is, when two are the same, and what the record holds of one
// (docs/adr/0010-names-and-addresses.md).

/** Dot-string of RFC 5321, 4.1.2: the part before the @ without quotes. RFC 6531 adds what is not ASCII. */
const LOCAL_PART = /^[\w!#$%&'*+/=?^`{|}~\x80-\uffff-]+(?:\.[\w!#$%&'*+/=?^`{|}~\x80-\uffff-]+)*$/;
const LABEL = /^(?!-)[a-z\d-]+(?<!-)$/;
/** Everything else ASCII means something to domainToASCII: it decodes percent signs, and cuts ports and paths off. */
const DOMAIN_TEXT = /^[a-z\d.\x80-\uffff-]+$/i;
const IPV4 = /^\d+(?:\.\d+){3}$/;

/** Whether a text is its own canonical form once it is in lower case: of ASCII, without labels of IDNA. */
function isPlain(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text) && !text.includes('xn--');
}

/** The address as its owner gave it, which is what mail goes to: trimmed, and in NFC. */
export function addressAsGiven(raw: string): string {
  return raw.trim().normalize('NFC');
}

/** Whether RFC 5321, 4.1.2 knows the text as a mailbox without quotes. @param given of `addressAsGiven` */
export function isMailbox(given: string): boolean {
  const { local, domain } = partsOf(given);
  return LOCAL_PART.test(local) && (asciiDomain(domain) ?? addressLiteral(domain)) !== null;
}

/**
 * The form in which addresses are compared: before the @ in NFC, with ASCII letters in lower case, because mail servers
 * may keep everything else apart; after it in A-labels, as a WHATWG URL has its host. Any text has one, because an
 * account may have an address that is no longer accepted.
 */
export function canonicalAddress(raw: string): string {
  const { local, domain } = partsOf(addressAsGiven(raw));
  // Lower case may compose with a mark where upper case does not: T and U+0308.
  return `${foldAscii(local)}@${canonicalDomain(domain)}`.normalize('NFC');
}

/** What the record holds of an address. Null where `email` says it. */
export interface StoredAddress {
  /** As 1.0.0 looks it up: trimmed, lower-cased by Unicode. The canonical form if that is plain, or another address. */
  email: string;
  /** As its owner gave it. */
  emailGiven: string | null;
  /** The canonical form of an `email` that is not plain. */
  emailKey: string | null;
}

/** Two addresses that are not the same never have the same `email`. @param given of `addressAsGiven` */
export function storedAddress(given: string): StoredAddress {
  const key = canonicalAddress(given);
  const former = given.toLowerCase();
  const email = isPlain(key) || canonicalAddress(former) !== key ? key : former;
  return { email, emailGiven: email === given ? null : given, emailKey: isPlain(email) ? null : key };
}

/** The address of a row, as its owner gave it. */
export function givenAddress({ email, emailGiven }: Pick<StoredAddress, 'email' | 'emailGiven'>): string {
  return emailGiven ?? email;
}

/** Texts that name the address, the canonical one first: those that 1.0.0 looks for among the names of deleted accounts. */
export function spellingsOf(given: string): string[] {
  const key = canonicalAddress(given);
  const { local, domain } = partsOf(key);
  const isName = !isPlain(domain) && asciiDomain(domain) !== null;
  const shown = isName ? domainToUnicode(domain) : domain;
  return [...new Set([key, given.toLowerCase(), `${local}@${shown}`])];
}

/** Whether the rows of an address may have it as their `emailKey` only. @param key a canonical form */
export function needsKey(key: string): boolean {
  return !isPlain(key);
}

function partsOf(text: string): { local: string; domain: string } {
  const at = text.lastIndexOf('@');
  return { local: text.slice(0, Math.max(at, 0)), domain: text.slice(at + 1) };
}

function foldAscii(text: string): string {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function canonicalDomain(domain: string): string {
  const lower = domain.toLowerCase().normalize('NFC');
  return asciiDomain(domain) ?? addressLiteral(domain) ?? asciiDomain(lower) ?? lower;
}

/** @returns null for what is no domain. */
function asciiDomain(domain: string): string | null {
  if (!DOMAIN_TEXT.test(domain)) return null;
  const folded = foldAscii(domain);
  const ascii = isPlain(folded) ? folded : domainToASCII(folded);
  // UTS 46 maps `１.２` to `1.2`, which a URL takes for the address 1.0.0.2.
  if (!isPlain(folded) && IPV4.test(ascii)) return null;
  return ascii.split('.').every(isLabel) ? ascii : null;
}

/** Newer versions of Node let an A-label pass that stands for no text; older ones do not. */
function isLabel(label: string): boolean {
  return LABEL.test(label) && !(label.startsWith('xn--') && domainToUnicode(label) === label);
}

/**
 * `[192.0.2.1]` or `[IPv6:2001:db8::1]`, in lower case. Spellings of one IPv6 address stay apart: of plain ASCII, only
 * the case may differ from what 1.0.0 has stored.
 * @returns null for anything else.
 */
function addressLiteral(domain: string): string | null {
  const [, ipv6, ipv4 = ''] = /^\[(?:ipv6:([\da-f:.]+)|([\d.]+))\]$/i.exec(domain) ?? [];
  const isAddress =
    ipv6 === undefined ? IPV4.test(ipv4) && domainToASCII(ipv4) === ipv4 : domainToASCII(`[${ipv6}]`) !== '';
  return isAddress ? foldAscii(domain) : null;
}

import { X509Certificate } from 'node:crypto';

const BEGIN = /-----BEGIN CERTIFICATE-----/g;
const BLOCK = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

/**
 * Whether a text holds PEM certificates, each of which can be read. Node skips what it cannot read in a list of CAs, so
 * that every later connection fails.
 */
export function holdsCertificates(text: string): boolean {
  const blocks = text.match(BLOCK) ?? [];
  return blocks.length > 0 && blocks.length === text.match(BEGIN)?.length && blocks.every(isCertificate);
}

function isCertificate(pem: string): boolean {
  try {
    new X509Certificate(pem);
    return true;
  } catch {
    return false;
  }
}

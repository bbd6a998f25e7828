/**
 * Keycloak stores a password as two JSON texts, of which an export of a realm makes one object. Its PBKDF2 in passlib's
 * format, and its argon2 in the PHC string format.
 * @param credential `{ credentialData, secretData }`, each as text or as the object in it.
 * @returns null if it is neither.
 */
export function readKeycloakHash(credential: object): string | null {
  const { credentialData, secretData } = credential as Record<string, unknown>;
  const [how, secret] = [objectOf(credentialData), objectOf(secretData)];
  if (!how || !secret) return null;
  const { algorithm, hashIterations, additionalParameters } = how;
  const [salt, key] = [base64Of(secret.salt), base64Of(secret.value)];
  if (salt === null || key === null || !Number.isSafeInteger(hashIterations)) return null;
  const iterations = Number(hashIterations);
  if (algorithm === 'argon2') return readArgon2(objectOf(additionalParameters), iterations, salt, key);
  if (typeof algorithm !== 'string' || !/^pbkdf2(-sha256|-sha512)?$/.test(algorithm)) return null;
  return `$${algorithm}$${iterations}$${dotted(salt)}$${dotted(key)}`;
}

function readArgon2(
  parameters: Record<string, unknown> | null,
  passes: number,
  salt: string,
  key: string,
): string | null {
  // Each parameter is a list of one text.
  const { type, version, memory, parallelism } = Object.fromEntries(
    Object.entries(parameters ?? {}).map(([name, value]) => [name, Array.isArray(value) ? value[0] : value]),
  ) as Record<string, unknown>;
  if (version !== '1.3') return null;
  return `$argon2${String(type)}$v=19$m=${String(memory)},t=${passes},p=${String(parallelism)}$${salt}$${key}`;
}

function objectOf(value: unknown): Record<string, unknown> | null {
  if (typeof value !== 'string') return isObject(value) ? value : null;
  try {
    const parsed: unknown = JSON.parse(value);
    return isObject(parsed) ? parsed : null;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @returns base64 without padding. */
function base64Of(value: unknown): string | null {
  if (typeof value !== 'string' || !/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return null;
  return value.replace(/=+$/, '');
}

function dotted(base64: string): string {
  return base64.replaceAll('+', '.');
}

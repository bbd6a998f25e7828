/** How this client authenticates at Latchkey. */
export interface Credentials {
  /** The header `Authorization`. @throws VerifierError `unavailable` */
  authorization(): string | Promise<string>;
  /** Latchkey answered 401 to this header. @returns whether another one is worth a try */
  refused(authorization: string): boolean;
  /** What a 401 means if no other header is worth a try. */
  mistake: string;
  close(): void;
}

/** RFC 6749, section 2.3.1: id and secret are form-encoded first. */
export function basicCredentials({ id, secret }: { id: string; secret: string }): Credentials {
  const [user, password] = [id, secret].map((text) => new URLSearchParams({ _: text }).toString().slice(2));
  const authorization = `Basic ${btoa(`${user}:${password}`)}`;
  return {
    authorization: () => authorization,
    refused: () => false,
    mistake: 'client.id or client.secret is wrong',
    close: () => undefined,
  };
}

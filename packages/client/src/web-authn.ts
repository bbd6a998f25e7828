// What the entry for passkeys uses of a browser. The types are declared here, because the check of the whole
// project compiles this file for Node, without the types of the DOM.

interface Credential<Response> {
  rawId: ArrayBuffer;
  response: Response;
  getClientExtensionResults: () => object;
}

export type Assertion = Credential<{
  clientDataJSON: ArrayBuffer;
  authenticatorData: ArrayBuffer;
  signature: ArrayBuffer;
  userHandle: ArrayBuffer | null;
}>;

export type Attestation = Credential<{
  clientDataJSON: ArrayBuffer;
  attestationObject: ArrayBuffer;
  /** Older browsers lack it. */
  getTransports?: () => string[];
}>;

/** The members that a browser takes as bytes; Latchkey's JSON has them in base64url. */
interface CreationOptions {
  challenge: Uint8Array;
  user: { id: Uint8Array };
  excludeCredentials: { id: Uint8Array }[];
}

interface Browser {
  navigator: {
    credentials: {
      create: (options: { signal: AbortSignal; publicKey: CreationOptions }) => Promise<unknown>;
      get: (options: {
        mediation: Mediation;
        signal: AbortSignal;
        publicKey: { challenge: Uint8Array };
      }) => Promise<unknown>;
    };
  };
  /** Older browsers lack some or all of these. */
  PublicKeyCredential?: {
    isConditionalMediationAvailable?: () => Promise<boolean>;
    signalAllAcceptedCredentials?: (options: AcceptedPasskeys) => Promise<void>;
    signalUnknownCredential?: (options: { rpId: string; credentialId: string }) => Promise<void>;
  };
}

export type Mediation = 'optional' | 'conditional';

export interface AcceptedPasskeys {
  rpId: string;
  userId: string;
  allAcceptedCredentialIds: readonly string[];
}

export const browser = globalThis as unknown as Browser;

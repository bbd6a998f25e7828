/** Why this replica may not serve: the part that disagrees, what is wrong, and what the operator does. */
export interface Objection {
  /** `ISSUER`, `REFRESH_TOKEN_SECRET`, `REDIS_URL`. */
  readonly about: string;
  readonly problem: string;
  readonly action: string;
}

/** What this replica knows of its agreement with the installation; null as long as nothing speaks against serving. */
export interface Standing {
  objection(): Objection | null;
}

/** Why this replica may not serve: the part that disagrees, what is wrong, and what the operator does. */
export interface Objection {
  /** The setting, such as `ISSUER`, `REFRESH_TOKEN_SECRET` or `REDIS_URL`. */
  readonly about: string;
  readonly problem: string;
  readonly action: string;
}

/** What this replica knows of its agreement with the installation; null as long as nothing speaks against serving. */
export interface Standing {
  objection(): Objection | null;
}

/** The first objection counts. */
export function joinStandings(...standings: readonly Standing[]): Standing {
  return {
    objection() {
      for (const standing of standings) {
        const objection = standing.objection();
        if (objection !== null) return objection;
      }
      return null;
    },
  };
}

/** For operators: the log, `/health/ready` and `doctor` say the same. */
export function describeObjection({ about, problem, action }: Objection): string {
  return `${about}: ${problem}. To do: ${action}`;
}

/** How the line of an event looks, besides its fields. */
export interface Kind {
  severity: 'info' | 'warn' | 'error';
  /** null if the event has a field `outcome` of its own. */
  outcome: 'success' | 'refused' | null;
  /**
   * `user`: the event's account. `service`: the event's client. `presenter`: a caller that presented a token, and is
   * not known to be its owner. `operator`: the user and host of the command. `system`: the service's own host.
   */
  actor: 'user' | 'service' | 'presenter' | 'operator' | 'system';
}

/** Of every operator's command. */
export const COMMAND_KIND = { severity: 'info', outcome: null, actor: 'operator' } as const satisfies Kind;
/** Of one after which less protects an account. */
export const WARNING_COMMAND_KIND = { ...COMMAND_KIND, severity: 'warn' } as const satisfies Kind;

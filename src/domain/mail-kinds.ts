/** What Latchkey wants to be mailed. It sends no mail itself: a mailer takes the mails from it. */
export const MAIL_KINDS = [
  'password_reset',
  'email_verification',
  'email_change',
  'invitation',
  'notice',
] as const;

export type MailKind = (typeof MAIL_KINDS)[number];

/** Those that a mailer gets that names no kinds: it was written when there were no others. */
export const USUAL_MAIL_KINDS = [
  'password_reset',
  'email_verification',
] as const satisfies readonly MailKind[];

/** The kinds whose mails bring a token. */
export type TokenKind = Exclude<MailKind, 'notice'>;

/** For how long a mail counts for the limits of its account and its address, in milliseconds. */
export const MAIL_WINDOW = 3_600_000;

/** What a notice tells of. */
export const NOTICE_EVENTS = [
  'email_change_requested',
  'email_changed',
  'password_changed',
  'factor_added',
  'factor_removed',
  'recovery_code_used',
  'new_device',
] as const;

export type NoticeEvent = (typeof NOTICE_EVENTS)[number];

/** What Latchkey wants to be mailed. It sends no mail itself: a mailer takes the mails from it. */
export const MAIL_KINDS = ['password_reset', 'email_verification'] as const;

export type MailKind = (typeof MAIL_KINDS)[number];

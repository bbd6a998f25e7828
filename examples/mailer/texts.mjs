// What the mails say, by language. To add one, translate a whole entry and name it by its tag (BCP 47). No text names the
// user: a stranger may sign up with another's address, and would choose what the mail says.

/** The language of accounts that have none, or one that is not here. */
export const USUAL = 'en';

export const LANGUAGES = {
  en: {
    greeting: 'Hello,',
    paste: 'If the page asks for a token, copy this line into it:',
    once: (until) =>
      `The link works once, until ${until}. If this was not you, ignore this mail, and nothing changes.`,
    kinds: {
      password_reset: {
        subject: 'Set a new password',
        text: 'somebody, probably you, wants a new password for your account. To set it, open this page:',
      },
      invitation: {
        subject: 'Your new account',
        text: 'an account has been made for you. To choose a password for it, open this page:',
      },
      email_verification: {
        subject: 'Confirm your e-mail address',
        text: 'to confirm that this address is yours, open this page and press the button:',
      },
      email_change: {
        subject: 'Confirm your new e-mail address',
        text: 'an account is to use this address from now on. If it is yours, open this page, log in, and press the button. Until then, the account keeps its earlier address.',
      },
    },
    events: {
      email_change_requested: {
        subject: 'Your e-mail address is about to change',
        text: (at) =>
          `on ${at}, somebody who is logged in to your account asked to change its e-mail address. The new address takes effect once it is confirmed, and then you get no more mails here.`,
      },
      email_changed: {
        subject: 'Your e-mail address has changed',
        text: (at) => `on ${at}, your account got another e-mail address. It sends no more mails here.`,
      },
      password_changed: {
        subject: 'Your password has changed',
        text: (at) => `on ${at}, your account got a new password.`,
      },
      factor_added: {
        subject: 'A second factor was added',
        text: (at) =>
          `on ${at}, an authenticator app was added to your account. Logins need its codes from now on.`,
      },
      factor_removed: {
        subject: 'A second factor was removed',
        text: (at) => `on ${at}, a second factor was removed from your account.`,
      },
      recovery_code_used: {
        subject: 'A recovery code was used',
        text: (at) => `on ${at}, somebody logged in to your account with one of its recovery codes.`,
      },
      new_device: {
        subject: 'A login on a new device',
        text: (at) => `on ${at}, somebody logged in to your account on a device that was not known to it.`,
      },
    },
    /** Of an event that this file does not know. */
    otherEvent: {
      subject: 'A change to your account',
      text: (at) => `on ${at}, something that protects your account changed.`,
    },
    alarm:
      'If this was you, there is nothing to do. If it was not, set a new password, and log out everywhere.',
  },
  de: {
    greeting: 'Guten Tag,',
    paste: 'Falls die Seite nach einem Code fragt, kopieren Sie diese Zeile hinein:',
    once: (until) =>
      `Der Link gilt einmal, bis ${until}. Falls Sie das nicht waren, beachten Sie diese Mail nicht; dann ändert sich nichts.`,
    kinds: {
      password_reset: {
        subject: 'Neues Passwort festlegen',
        text: 'jemand, vermutlich Sie, möchte ein neues Passwort für Ihr Konto. Um es festzulegen, öffnen Sie diese Seite:',
      },
      invitation: {
        subject: 'Ihr neues Konto',
        text: 'für Sie wurde ein Konto angelegt. Um ein Passwort dafür zu wählen, öffnen Sie diese Seite:',
      },
      email_verification: {
        subject: 'E-Mail-Adresse bestätigen',
        text: 'um zu bestätigen, dass diese Adresse Ihre ist, öffnen Sie diese Seite und drücken Sie den Knopf:',
      },
      email_change: {
        subject: 'Neue E-Mail-Adresse bestätigen',
        text: 'ein Konto soll künftig diese Adresse benutzen. Falls es Ihres ist, öffnen Sie diese Seite, melden Sie sich an, und drücken Sie den Knopf. Bis dahin behält das Konto seine bisherige Adresse.',
      },
    },
    events: {
      email_change_requested: {
        subject: 'Ihre E-Mail-Adresse soll sich ändern',
        text: (at) =>
          `am ${at} hat jemand, der in Ihrem Konto angemeldet ist, eine andere E-Mail-Adresse verlangt. Sie gilt, sobald sie bestätigt ist, und dann bekommen Sie hier keine Mails mehr.`,
      },
      email_changed: {
        subject: 'Ihre E-Mail-Adresse hat sich geändert',
        text: (at) =>
          `am ${at} hat Ihr Konto eine andere E-Mail-Adresse bekommen. Es schickt keine Mails mehr hierher.`,
      },
      password_changed: {
        subject: 'Ihr Passwort hat sich geändert',
        text: (at) => `am ${at} hat Ihr Konto ein neues Passwort bekommen.`,
      },
      factor_added: {
        subject: 'Ein zweiter Faktor kam hinzu',
        text: (at) =>
          `am ${at} wurde eine Authenticator-App zu Ihrem Konto hinzugefügt. Anmeldungen brauchen von nun an ihre Codes.`,
      },
      factor_removed: {
        subject: 'Ein zweiter Faktor wurde entfernt',
        text: (at) => `am ${at} wurde ein zweiter Faktor aus Ihrem Konto entfernt.`,
      },
      recovery_code_used: {
        subject: 'Ein Wiederherstellungscode wurde benutzt',
        text: (at) =>
          `am ${at} hat sich jemand mit einem der Wiederherstellungscodes in Ihrem Konto angemeldet.`,
      },
      new_device: {
        subject: 'Anmeldung mit einem neuen Gerät',
        text: (at) =>
          `am ${at} hat sich jemand in Ihrem Konto angemeldet, mit einem Gerät, das es noch nicht kannte.`,
      },
    },
    otherEvent: {
      subject: 'Eine Änderung an Ihrem Konto',
      text: (at) => `am ${at} hat sich etwas geändert, das Ihr Konto schützt.`,
    },
    alarm:
      'Falls Sie das waren, ist nichts zu tun. Falls nicht, legen Sie ein neues Passwort fest, und melden Sie sich überall ab.',
  },
};

/** RFC 4647, 3.4: the longest beginning of the account's language that is here, so `de-CH-1996` finds `de`. */
export function languageOf(locale) {
  const subtags = (locale ?? '').toLowerCase().split('-');
  while (subtags.length > 0) {
    const tag = subtags.join('-');
    const found = Object.keys(LANGUAGES).find((each) => each.toLowerCase() === tag);
    if (found) return found;
    subtags.pop();
    // A letter that stands alone begins an extension, and means nothing at the end.
    if (subtags.at(-1)?.length === 1) subtags.pop();
  }
  return USUAL;
}

import { dictionary } from '@zxcvbn-ts/language-common';
import type { IsCommonPassword } from '../../domain/passwords/policy.ts';

/** The commonest passwords of known leaks, in lower case, shipped with the package and checked offline. */
export function loadCommonPasswords(): IsCommonPassword {
  const passwords = new Set((dictionary as Record<string, readonly string[]>)['passwords-common']);
  if (passwords.size === 0) throw new Error('the list of common passwords is empty');
  return (password) => passwords.has(password);
}

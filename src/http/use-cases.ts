import type { Exchange } from '../domain/access-tokens/exchange.ts';
import type { Introspect } from '../domain/access-tokens/introspect.ts';
import type { ServiceTokens } from '../domain/access-tokens/service-tokens.ts';
import type { Verify } from '../domain/access-tokens/verify.ts';
import type { CheckAssertion, RegisteredServices } from '../domain/services/authenticate.ts';
import type { EndToken, LogOut, RevokeToken } from '../domain/tokens/end-token.ts';
import type { CreateLongLived } from '../domain/long-lived-tokens/create.ts';
import type { LogIn } from '../domain/sessions/log-in.ts';
import type { LogOutEverywhere } from '../domain/sessions/log-out-everywhere.ts';
import type { Refresh } from '../domain/sessions/refresh.ts';
import type { ChangePassword } from '../domain/users/change-password.ts';
import type { ChangeProfile } from '../domain/users/change-profile.ts';
import type { CreateAccount } from '../domain/users/create-account.ts';
import type { ListTokens } from '../domain/users/list-tokens.ts';
import type { ManageAccounts } from '../domain/users/manage-accounts.ts';
import type { AccountWithTokens } from '../domain/users/account-with-tokens.ts';
import type { ResetPassword } from '../domain/users/reset-password.ts';
import type { SignUp } from '../domain/sessions/sign-up.ts';

/** The use cases that the HTTP layer calls. */
export interface UseCases {
  signUp: SignUp;
  logIn: LogIn;
  logOut: LogOut;
  refresh: Refresh;
  verify: Verify;
  serviceTokens: ServiceTokens;
  endToken: EndToken;
  createLongLived: CreateLongLived;
  accountWithTokens: AccountWithTokens;
  changePassword: ChangePassword;
  changeProfile: ChangeProfile;
  resetPassword: ResetPassword;
  services: RegisteredServices;
  checkAssertion: CheckAssertion;
  listTokens: ListTokens;
  logOutEverywhere: LogOutEverywhere;
  createAccount: CreateAccount;
  accounts: ManageAccounts;
  introspect: Introspect;
  exchange: Exchange;
  revokeToken: RevokeToken;
}

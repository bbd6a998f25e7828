import type { Exchange } from './access-tokens/exchange.ts';
import type { Introspect } from './access-tokens/introspect.ts';
import type { Verify } from './access-tokens/verify.ts';
import type { ServiceClients } from './clients/authenticate.ts';
import type { EndToken, LogOut, RevokeToken } from './tokens/end-token.ts';
import type { CreateLongLived } from './long-lived-tokens/create.ts';
import type { LogIn } from './sessions/log-in.ts';
import type { LogOutEverywhere } from './sessions/log-out-everywhere.ts';
import type { Refresh } from './sessions/refresh.ts';
import type { ChangePassword } from './users/change-password.ts';
import type { ChangeProfile } from './users/change-profile.ts';
import type { CreateAccount } from './users/create-account.ts';
import type { ListTokens } from './users/list-tokens.ts';
import type { ManageAccounts } from './users/manage-accounts.ts';
import type { Profile } from './users/profile.ts';
import type { ResetPassword } from './users/reset-password.ts';
import type { SignUp } from './users/sign-up.ts';

/** The use cases that the HTTP layer calls. */
export interface UseCases {
  signUp: SignUp;
  logIn: LogIn;
  logOut: LogOut;
  refresh: Refresh;
  verify: Verify;
  endToken: EndToken;
  createLongLived: CreateLongLived;
  profile: Profile;
  changePassword: ChangePassword;
  changeProfile: ChangeProfile;
  resetPassword: ResetPassword;
  clients: ServiceClients;
  listTokens: ListTokens;
  logOutEverywhere: LogOutEverywhere;
  createAccount: CreateAccount;
  accounts: ManageAccounts;
  introspect: Introspect;
  exchange: Exchange;
  revokeToken: RevokeToken;
}

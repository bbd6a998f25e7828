import type { Introspect } from './access-tokens/introspect.ts';
import type { Verify } from './access-tokens/verify.ts';
import type { ServiceClients } from './clients/authenticate.ts';
import type { EndToken, LogOut, RevokeToken } from './tokens/end-token.ts';
import type { CreateLongLived } from './long-lived-tokens/create.ts';
import type { LogIn } from './sessions/log-in.ts';
import type { LogOutEverywhere } from './sessions/log-out-everywhere.ts';
import type { Refresh } from './sessions/refresh.ts';
import type { ListTokens } from './users/list-tokens.ts';
import type { Profile } from './users/profile.ts';
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
  clients: ServiceClients;
  listTokens: ListTokens;
  logOutEverywhere: LogOutEverywhere;
  introspect: Introspect;
  revokeToken: RevokeToken;
}

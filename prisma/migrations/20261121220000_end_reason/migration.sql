SET LOCAL lock_timeout = '2s';

-- Why a token was ended. Text, and without a list of values: a later release may know more of them while this one serves.
-- Null where a release before this one has ended it.
ALTER TABLE "tokens" ADD COLUMN "end_reason" TEXT;

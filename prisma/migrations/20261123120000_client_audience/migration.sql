SET LOCAL lock_timeout = '2s';

-- The audience that exchanged tokens are issued for. Replicas of an earlier release ignore it.
ALTER TABLE "service_clients" ADD COLUMN "audience" TEXT;

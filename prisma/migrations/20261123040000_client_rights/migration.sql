SET LOCAL lock_timeout = '2s';

-- What a service may do. The default is what every service could do before this column, also one that a replica of an
-- earlier release registers.
ALTER TABLE "service_clients" ADD COLUMN "rights" TEXT[] NOT NULL DEFAULT ARRAY['introspect', 'revoke', 'revocations']::TEXT[];

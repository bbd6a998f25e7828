SET LOCAL lock_timeout = '2s';

-- A few rows each, so that their indexes are built again at once. The foreign key between the two locks both anyway.
ALTER TABLE "service_clients"
    ALTER COLUMN "client_id" TYPE TEXT COLLATE "C",
    ALTER COLUMN "name" TYPE TEXT COLLATE "C",
    ALTER COLUMN "audience" TYPE TEXT COLLATE "C";
ALTER TABLE "client_trusts"
    ALTER COLUMN "issuer" TYPE TEXT COLLATE "C",
    ALTER COLUMN "subject" TYPE TEXT COLLATE "C",
    ALTER COLUMN "client_id" TYPE TEXT COLLATE "C";

SET LOCAL lock_timeout = '2s';

-- How far each reader of the feed has applied it (src/domain/enforcement/). 1.0.0 does not know the table. A confirmation
-- rewrites the row in its page, because half of each page stays free and no index holds what it changes.
CREATE TABLE "feed_readers" (
    "client_id" TEXT COLLATE "C" NOT NULL,
    "reader" TEXT COLLATE "C" NOT NULL,
    "seen_at" TIMESTAMPTZ(3) NOT NULL,
    "confirmed_at" TIMESTAMPTZ(3),
    "epoch" TEXT COLLATE "C",
    "seq" BIGINT,
    "instance" TEXT COLLATE "C",
    "software" TEXT COLLATE "C",
    "version" TEXT COLLATE "C",
    "audience" TEXT COLLATE "C",
    "max_staleness" INTEGER,
    "when_stale" TEXT COLLATE "C",
    "keys" TEXT[] COLLATE "C" NOT NULL DEFAULT '{}',

    CONSTRAINT "feed_readers_pkey" PRIMARY KEY ("client_id", "reader")
) WITH (fillfactor = 50);

-- AddForeignKey
ALTER TABLE "feed_readers" ADD CONSTRAINT "feed_readers_client_id_fkey" FOREIGN KEY ("client_id") REFERENCES "service_clients"("client_id") ON DELETE CASCADE ON UPDATE CASCADE;

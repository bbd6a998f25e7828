SET LOCAL lock_timeout = '2s';

-- The two new ones find the mails of a kind among any number of others. No release has used these.
DROP INDEX "wanted_mails_waiting_idx", "wanted_mails_takeable_idx";

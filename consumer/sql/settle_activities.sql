select id, epoch, payment_window from activities where id = any($1::text[])

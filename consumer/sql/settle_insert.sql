-- All outcomes of a batch. A row that is not inserted was decided by somebody else
-- meanwhile; the caller then decides anew.
insert into orders (id, activity_id, sku_id, user_id, quantity, amount, status, reason,
                    created_at, pay_before, key, epoch, partition, log_seq, term)
select id, activity_id, sku_id, user_id, quantity, amount, status, nullif(reason, ''),
       created_at, now() + nullif(payment_window, interval '0'), nullif(key, ''), epoch, $14, log_seq, $15
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::int[], $6::bigint[], $7::text[], $8::text[],
              $9::timestamptz[], $10::interval[], $11::text[], $12::bigint[], $13::bigint[])
    as o (id, activity_id, sku_id, user_id, quantity, amount, status, reason,
          created_at, payment_window, key, epoch, log_seq)
 order by id
    on conflict do nothing

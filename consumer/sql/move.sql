-- Every change of a status after the first decision. A row that has another status
-- than was read has been changed by somebody else meanwhile; the caller looks again.
update orders o
   set status = w.status, reason = nullif(w.reason, ''), amount = w.amount,
       decided_at = case w.was when 'held' then now() else o.decided_at end,
       changed_at = now(),
       pay_before = coalesce(now() + nullif(w.payment_window, interval '0'), o.pay_before),
       release_epoch = nullif(w.release_epoch, 0), refund = nullif(w.refund, ''),
       term = coalesce(nullif($9::bigint, 0), o.term)
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::interval[], $7::bigint[], $8::text[])
    as w (id, was, status, reason, amount, payment_window, release_epoch, refund)
 where o.id = w.id and o.status = w.was

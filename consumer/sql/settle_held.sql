-- Decides held orders. A row that is not held any more was decided by somebody else
-- meanwhile; the caller then decides anew. A rejected one may be charged at the gate
-- without being pending there (a rebuild counts held orders), so it is marked.
update orders o
   set status = w.status, reason = nullif(w.reason, ''), decided_at = now(), amount = w.amount,
       pay_before = now() + nullif(w.payment_window, interval '0'),
       release_epoch = nullif(w.release_epoch, 0), term = coalesce(nullif($7, 0), o.term)
  from unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::interval[], $6::bigint[])
    as w (id, status, reason, amount, payment_window, release_epoch)
 where o.id = w.id and o.status = 'held'

-- What the ledger knows of one order beside what its buyer sees.
select o.partition, o.log_seq, o.term, o.epoch, o.release_epoch, coalesce(o.key, ''), o.changed_at,
       coalesce(p.id, ''), coalesce(p.amount, 0), coalesce(p.state, ''), p.created_at,
       coalesce((select e.id::text from orders e where e.replaced_by = o.id limit 1), ''),
       (select min(x.at) from outbox_batches x where o.id = any(x.order_ids))
  from orders o
  left join payments p on p.order_id = o.id
 where o.id = $1

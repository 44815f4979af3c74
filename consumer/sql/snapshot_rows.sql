-- What a rebuilt gate must know: charged orders, and dead ones that an
-- Idempotency-Key still points to.
select id::text, activity_id, sku_id, user_id, coalesce(key, ''), quantity, amount, status, coalesce(reason, ''),
       created_at, decided_at, pay_before, coalesce(refund, ''), coalesce(replaced_by::text, '')
  from orders
 where activity_id = $1
   and (status in ('pending_payment', 'confirmed', 'paid', 'held') or key is not null)

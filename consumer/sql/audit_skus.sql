-- Every SKU with what its orders add up to. An activity without SKUs is one row.
select a.id, a.epoch, s.sku_id, s.version, coalesce(s.total, 0)::bigint, coalesce(s.stock, 0)::bigint,
       coalesce(o.live, 0)::bigint, coalesce(o.held, 0)::bigint
  from activities a
  left join skus s on s.activity_id = a.id
  left join (select activity_id, sku_id,
                    sum(quantity) filter (where status in ('pending_payment', 'confirmed', 'paid')) as live,
                    sum(quantity) filter (where status = 'held') as held
               from orders
              where $1 = '' or activity_id = $1
              group by 1, 2) o
    on o.activity_id = s.activity_id and o.sku_id = s.sku_id
 where $1 = '' or a.id = $1
 order by a.id, s.sku_id
